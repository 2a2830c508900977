#include "core/config/suggest.hpp"

#include <algorithm>
#include <iterator>

namespace pipeline::config {
namespace {

struct Names {
  std::string_view theirs;  // space-separated; dotted where the last part alone says too little
  std::string_view ours;
};

constexpr Names kKeys[] = {
    {"epochs epoch num_epochs max_epoch n_epochs nb_epochs total_epochs num_train_epochs",
     "train.max_epochs"},
    {"steps num_steps n_steps max_step total_steps train_steps training_steps num_training_steps "
     "max_train_steps max_iters max_iterations num_iterations iterations train_iters",
     "train.max_steps"},
    {"max_time time_limit max_duration", "train.max_seconds"},
    {"batch_size",
     "train.global_batch (samples per optimizer step over all devices) or train.batch_per_device"},
    {"train_batch_size global_batch_size total_batch_size effective_batch_size", "train.global_batch"},
    {"local_batch_size device_batch_size batch_size_per_device batch_size_per_gpu per_gpu_batch_size "
     "per_gpu_train_batch_size per_device_train_batch_size per_device_batch_size",
     "train.micro_batch (samples per forward pass) or train.batch_per_device (samples per optimizer step and "
     "device)"},
    {"micro_batch_size microbatch_size train_micro_batch_size_per_gpu device_train_microbatch_size",
     "train.micro_batch"},
    {"auto_find_batch_size find_executable_batch_size scale_batch_size", "train.micro_batch = \"auto\""},
    {"eval_batch_size val_batch_size per_device_eval_batch_size per_gpu_eval_batch_size",
     "train.micro_batch, which evaluation uses, too"},
    {"gradient_accumulation_steps gradient_accumulation accumulate_grad_batches grad_accumulation_steps "
     "grad_accum_steps grad_acc_steps grad_accum accumulation accumulate update_freq iter_size",
     "train.accumulation_steps"},
    {"max_grad_norm grad_norm max_norm clip_norm clip_grad grad_clip gradient_clip gradient_clipping "
     "gradient_clip_val clip_gradients grad_norm_clip",
     "train.clip_grad_norm"},
    {"clip_value clipvalue grad_clip_value gradient_clip_value", "train.clip_grad_value"},
    {"fp16 bf16 fp32 amp use_amp half tf32 mixed_precision mixed_precision_param "
     "fp16.enabled bf16.enabled fp16_full_eval bf16_full_eval",
     "train.precision = \"auto\", \"fp32\", \"bf16\" or \"fp16\""},
    {"dtype torch_dtype", "train.precision, or export.dtype for the weights that are written"},
    {"save_dtype save_precision output_dtype export_dtype outtype", "export.dtype"},
    {"max_shard_size export_size", "export.shard_size"},
    {"initial_scale_power init_scale", "train.loss_scale"},
    {"loss_scale_window scale_window growth_interval", "train.loss_scale_interval"},
    {"gradient_checkpointing grad_checkpointing activation_checkpoint activation_checkpoint.mode "
     "activation_checkpointing.mode activation_checkpointing.enabled use_checkpoint recompute",
     "train.activation_checkpointing = true"},
    {"label_smoothing_factor label_smooth", "task.loss.label_smoothing"},
    {"z_loss_multiplier z_loss_weight z_loss_coef softmax_auxiliary_loss softmax_auxiliary_loss_scale "
     "auxiliary_loss_multiplier",
     "task.loss.z_loss"},
    {"model_name_or_path pretrained_model_name_or_path pretrained pretrained_model pretrained_path "
     "init_checkpoint initial_load_path load_from load_checkpoint init_weights",
     "train.init_from"},

    {"learning_rate learningrate base_lr max_lr peak_lr initial_lr init_lr optimizer.params.lr",
     "optimizer.lr"},
    {"wd l2 adam_weight_decay optimizer.params.weight_decay", "optimizer.weight_decay"},
    {"adam_beta1", "optimizer.beta1"},
    {"adam_beta2", "optimizer.beta2"},
    {"betas adam_betas optimizer.params.betas", "optimizer.beta1 and optimizer.beta2"},
    {"eps adam_eps adam_epsilon optimizer.params.eps", "optimizer.epsilon"},
    {"optim optimizer_name optimizer_type optimizer.type optimizer.name", "optimizer.kind"},

    {"lr_schedule lr_scheduler scheduler lr_scheduler_type scheduler_type lr_decay_style decay_type "
     "lr_policy scheduler.type scheduler.name",
     "schedule.kind = \"cosine\", \"linear\", \"constant\", \"wsd\" or \"inverse_sqrt\""},
    {"warmup warmup_iters num_warmup_steps lr_warmup_steps lr_warmup_iters warmup_num_steps",
     "schedule.warmup_steps"},
    {"warmup_ratio warmup_fraction warmup_epochs", "schedule.warmup_steps, a number of steps"},
    {"min_lr lr_min lr_end eta_min min_lr_factor min_lr_rate final_lr",
     "schedule.min_lr_ratio, a share of optimizer.lr"},
    {"num_decay_steps lr_wsd_decay_iters", "schedule.decay_steps"},
    {"lr_decay_iters lr_decay_steps decay_ratio total_num_steps",
     "train.max_steps: the schedule ends with the training"},
    {"scale_lr lr_scale auto_scale_lr", "schedule.lr_scaling"},

    {"num_workers dataloader_num_workers data_workers n_workers workers_per_gpu num_data_workers",
     "loader.workers"},
    {"prefetch_factor dataloader_prefetch_factor num_prefetch", "loader.prefetch"},
    {"dataloader_pin_memory use_pinned_memory", "loader.pin_memory"},
    {"length_grouped bucket_by_length sort_by_length train_sampling_strategy", "loader.group_by_length"},

    {"random_seed manual_seed global_seed seed_everything data_seed torch_seed rng_seed", "run.seed"},
    {"deterministic full_determinism use_deterministic_algorithms cudnn_deterministic debug.deterministic",
     "run.reproducible"},
    {"output_dir out_dir save_dir outdir default_root_dir logging_dir log_dir work_dir working_dir "
     "dump_folder project_dir",
     "run.dir"},
    {"run_name experiment_name exp_name experiment project project_name", "run.name"},
    {"accelerator", "run.device"},

    {"save_steps save_every save_interval save_freq save_strategy checkpoint_every checkpoint_interval "
     "checkpoint_steps checkpointing_steps every_n_train_steps ckpt_freq checkpoint.interval "
     "checkpoint.enable",
     "checkpoint.every"},
    {"save_total_limit save_top_k keep_latest_k checkpoints_total_limit max_to_keep", "checkpoint.keep"},
    {"load_best_model_at_end save_best", "checkpoint.keep_best"},
    {"async_save async_mode", "checkpoint.background"},
    {"metric_for_best_model monitor", "evaluate.best_metric"},
    {"early_stopping_patience early_stopping", "evaluate.patience"},
    {"early_stopping_threshold early_stopping_min_delta", "evaluate.min_delta"},
    {"resume resume_from resume_from_checkpoint auto_resume ckpt_path",
     "run.dir: a run in the same folder continues by itself"},
    {"overwrite_output_dir", "the flag --fresh"},
    {"eval_steps eval_every eval_interval eval_freq eval_strategy evaluation_strategy val_check_interval "
     "validation_steps check_val_every_n_epoch do_eval validation.freq",
     "evaluate.every"},
    {"limit_val_batches eval_iters max_eval_samples eval_samples limit_test_batches", "evaluate.max_samples"},

    {"logging_steps log_interval log_freq log_every_n_steps log_steps steps_per_print print_freq print_every "
     "metrics.log_freq",
     "observe.log_every"},
    {"logging_level verbose verbosity log_verbosity", "observe.log_level"},
    {"profiler profiling enable_profiling profile_freq profile_steps wall_clock_breakdown profiler.enabled "
     "profiling.enable_profiling profiling.profile_freq",
     "observe.profile = \"10-14\", the first and the last step to record"},
    {"disable_tqdm enable_progress_bar progress_bar", "observe.console"},

    {"devices num_devices gpus n_gpus n_gpu num_gpus gpus_per_node nproc_per_node nproc num_processes "
     "world_size ntasks_per_node data_parallel_size",
     "launch.processes, per host"},
    {"nodes num_nodes nnodes num_machines",
     "launch.processes, per host; hosts come from the launcher (Slurm, torchrun, MPI)"},
    {"num_threads num_cpu_threads_per_process omp_num_threads torch_num_threads", "launch.threads"},
    {"ddp_timeout nccl_timeout init_timeout_seconds train_timeout_seconds", "launch.stall_seconds"},
    {"distributed_type sharding_strategy fsdp fsdp_config deepspeed data_parallel data_parallel_mode",
     "strategy.plugin = \"single\", \"ddp\" or \"sharded\""},
    {"data_parallel_replicate_degree hybrid_shard hsdp mics_shard_size",
     "strategy.plugin = \"sharded\" with strategy.shard_group"},
    {"zero_optimization zero_optimization.stage data_parallel_shard_degree",
     "strategy.plugin = \"sharded\" with strategy.zero_stage"},
    {"dist_backend ddp_backend distributed_backend process_group_backend", "backend.plugin"},

    {"max_seq_length max_seq_len max_sequence_length max_length cutoff_len sequence_len model_max_length",
     "task.chat.max_tokens, or what the task calls it: `pipeline explain TASK`"},
    {"assistant_only_loss completion_only_loss train_on_inputs train_on_prompt mask_prompt mask_history "
     "response_template instruction_template",
     "task.chat.learn = \"answers\", \"last\" or \"all\""},
    {"chat_template chat_template_path", "task.chat.template"},
    {"dataset_text_field text_column text_field",
     "task.data.question_column, without an answer_column: of texts by themselves"},
    {"dataset_name dataset_path dataset_dir data_path data_files train_file train_data train_dataset",
     "task.data.train"},
    {"validation_file eval_file eval_dataset val_data", "task.data.val"},
    {"val_set_size test_size validation_split", "task.data.validation_share"},
    {"max_new_tokens max_completion_length", "task.generate.max_tokens"},
    {"model.n_layer", "task.language.num_hidden_layers"},
    {"model.n_head", "task.language.num_attention_heads"},
    {"model.n_embd", "task.language.hidden_size"},
    {"model.n_inner", "task.language.intermediate_size"},
    {"model.n_positions", "task.language.max_position_embeddings"},
    {"model.embd_pdrop model.attn_pdrop model.resid_pdrop", "task.language.dropout"},
    {"model.layer_norm_epsilon", "task.language.norm_eps"},
    {"model.initializer_range", "task.language.initializer_range"},
    {"lora_r lora_rank lora_dim peft_config use_peft use_lora lora.r peft.r",
     "task.language.lora.rank (of an ESM-2 task.esm2.lora.rank, of an ESM C task.esmc.lora.rank)"},
    {"lora_alpha", "task.language.lora.alpha, and so of task.esm2 and task.esmc"},
    {"lora_dropout", "task.language.lora.dropout, and so of task.esm2 and task.esmc"},
    {"lora_target_modules target_modules lora_target lora_targets",
     "task.language.lora.targets, and so of task.esm2 and task.esmc"},
    {"lora_modules_to_save additional_target embedding_lora",
     "task.language.lora.modules_to_save: an embedding or a head is trained as a whole"},
    {"loss_type pref_loss", "task.preference.loss, where \"dpo\" is what others call \"sigmoid\""},
    {"ref_model model_ref ref_model_path", "task.preference.reference: with LoRA there is no need of one"},
    {"rpo_alpha cpo_alpha pref_ftx", "task.preference.sft_weight"},
    {"simpo_gamma gamma_beta_ratio", "task.preference.gamma"},
    {"pref_beta", "task.preference.beta"},
    {"report_to log_with",
     "observe.wandb = true or observe.tensorboard = true; metrics.jsonl is always written"},

    {"plugin_path plugin_paths plugin_dir plugins_dir", "plugins.paths"},
};

constexpr Names kTables[] = {
    {"training trainer training_args train_args hyperparameters", "[train]"},
    {"optim", "[optimizer]"},
    {"scheduler lr_scheduler lr_schedule", "[schedule]"},
    {"dataloader data_loader", "[loader]"},
    {"eval evaluation validation validate val", "[evaluate]"},
    {"checkpointing checkpoints ckpt", "[checkpoint]"},
    {"log logging logger metrics", "[observe]"},
    {"profiler profiling", "observe.profile"},
    {"model network", "[task.language]"},
    {"data dataset datasets", "[task.data]"},
    {"distributed parallelism parallel deepspeed fsdp zero_optimization", "[strategy]"},
    {"launcher accelerate", "[launch]"},
    {"fp16 bf16 amp mixed_precision", "train.precision"},
    {"activation_checkpoint activation_checkpointing", "train.activation_checkpointing"},
    {"job experiment", "[run]"},
    {"plugin", "[plugins]"},
    {"stages", "[[stage]]"},
};

// Words of command lines: verbs, and options that kKeys and our own keys do not explain.
constexpr Names kVerbs[] = {
    {"train fit finetune fine_tune pretrain sft start launch", "run"},
    {"resume continue restart requeue", "run, which continues the run that it began"},
    {"test eval validate val score", "evaluate"},
    {"generate inference infer sample ask chat", "predict"},
    {"convert save merge push", "export"},
    {"init create scaffold", "new"},
    {"list runs", "ls"},
    {"info env hardware gpus", "devices"},
    {"lint verify dry_run", "check"},
    {"estimate profile benchmark bench", "plan"},
    {"tune lr_find lr_finder", "find-lr"},
    {"plot show visualize", "report"},
    {"serve watch monitor dashboard tensorboard", "run FILE --set observe.serve=127.0.0.1:8080"},
    {"diff", "compare"},
    {"options keys schema docs", "explain"},
    {"help", "--help, or VERB --help"},
    {"version", "--version"},
};

constexpr Names kFlags[] = {
    {"config config_file config_path config_name cfg yaml c f",
     "the file comes without an option, right behind the verb"},
    {"resume resume_from resume_from_checkpoint auto_resume continue ckpt ckpt_path checkpoint "
     "checkpoint_path",
     "the same command continues the run in run.dir by itself; weights alone come from train.init_from"},
    {"overwrite overwrite_output_dir force restart", "write --fresh"},
    {"master_addr rdzv_endpoint main_process_ip", "write --master-address"},
    {"main_process_port", "write --master-port"},
    {"nnodes num_nodes num_machines", "write --nodes"},
    {"machine_rank", "write --node-rank"},
    {"train do_train", "write the verb run"},
    {"eval eval_only do_eval test test_only do_test", "write the verb evaluate"},
    {"predict do_predict generate inference", "write the verb predict"},
    {"dry_run dryrun", "write the verb check, or plan for what a run would take"},
    {"gpu gpu_ids gpu_id device_ids cuda",
     "all devices are used: choose some by CUDA_VISIBLE_DEVICES, or their number by launch.processes"},
    {"no_cuda use_cpu cpu", "write --set run.device=cpu"},
    {"n np", "launch.processes, per host"},
    {"o out output", "run.dir"},
    {"v", "observe.log_level"},
    {"q quiet silent", "observe.console = \"off\""},
    {"task", "task.plugin"},
    {"strategy", "strategy.plugin"},
    {"backend", "backend.plugin"},
    {"optimizer opt", "optimizer.kind"},
    {"schedule", "schedule.kind"},
};

// Options that have no key here, because they need none.
constexpr Names kNeedless[] = {
    {"find_unused_parameters ddp_find_unused_parameters static_graph",
     "parameters that a step does not use are always found, at no cost"},
    {"set_to_none zero_grad_set_to_none optimizer_zero_grad_set_to_none zero_grad",
     "gradients are always cleared, at no cost: none is set to zero that the next one does not need"},
};

// What other tools have and we do not, and what to do instead.
constexpr Names kAbsent[] = {
    {"packing sample_packing pack_sequences padding_free group_texts padding_side pad_to_multiple_of "
     "pad_to_max_length",
     "the sequences of a batch stand one behind another and none is padded, so packing would save nothing"},
    {"attn_implementation attention_implementation use_flash_attention_2 flash_attention flash_attn "
     "use_flash_attn sdp_attention xformers_attention",
     "there is one attention for each device, and none keeps the matrix of its scores"},
    {"torch_compile use_liger_kernel liger_kernel use_unsloth",
     "there is nothing to switch on: layers are computed by fused kernels wherever there are any"},
    {"use_dora dora", "DoRA is not computed here: a larger lora.rank is what comes nearest"},
    {"init_lora_weights pissa loftq_config",
     "LoRA starts at zero here, or with a PEFT adapter: lora.init_from"},
    {"load_in_4bit load_in_8bit quantization_config quantization_bit bnb_4bit_quant_type "
     "bnb_4bit_compute_dtype bnb_4bit_use_double_quant qlora",
     "write train.frozen_precision = \"nf4\" (4 bits) or \"int8\" for a frozen model under lora.rank"},
    {"precompute_ref_log_probs reference_free sync_ref_model",
     "the reference is computed in each step, and with LoRA takes no memory: losses without one are cpo, "
     "simpo and orpo"},
    {"neftune_noise_alpha neftune_alpha noisy_embedding_alpha",
     "no noise is added to embeddings: against learning by heart there are dropout, optimizer.weight_decay "
     "and evaluate.patience"},
    {"push_to_hub hub_model_id hub_token hub_strategy hub_private_repo push_to_hub_model_id",
     "nothing is sent anywhere: `pipeline export` writes a folder, and `hf upload NAME FOLDER` publishes it"},
    {"remove_unused_columns", "columns that the task does not name are never read"},
};

// Values that an option of any name may have elsewhere.
constexpr Names kValues[] = {
    {"adamw_8bit adamw_bnb_8bit adam8bit paged_adamw_8bit", "write \"adamw\" with optimizer.state_bits = 8"},
    {"adamw_torch adamw_torch_fused adamw_hf adamw_apex_fused adam paged_adamw paged_adamw_32bit fusedadam "
     "fused_adamw",
     "write \"adamw\""},
    {"lion adafactor lamb lars rmsprop adagrad galore_adamw schedule_free_adamw sophia",
     "it is not there: adamw, or a plugin's update rule by optimizer.plugin"},
    {"cosine_with_restarts cosine_with_min_lr polynomial one_cycle onecycle cosine_annealing",
     "write \"cosine\", with schedule.min_lr_ratio for where it ends"},
    {"constant_with_warmup", "write \"constant\" with schedule.warmup_steps"},
    {"warmup_stable_decay", "write \"wsd\" with schedule.decay_steps"},
    {"bfloat16 bf16-mixed", "write \"bf16\""},
    {"float16 16-mixed", "write \"fp16\""},
    {"float32", "write \"fp32\""},
    {"deepspeed fsdp", "write \"sharded\" with strategy.zero_stage"},
};

// Calls visit(theirs, ours) for each name, until it returns false.
template <class Visit>
void each_name(const Names* begin, const Names* end, const Visit& visit) {
  for (const Names* names = begin; names != end; ++names)
    for (std::string_view rest = names->theirs; !rest.empty();) {
      const std::string_view name = rest.substr(0, rest.find(' '));
      if (!visit(name, names->ours)) return;
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    }
}

std::string_view look_up(const Names* begin, const Names* end, std::string_view theirs) {
  std::string_view found;
  each_name(begin, end, [&](std::string_view name, std::string_view ours) {
    if (name.size() == theirs.size() && edit_distance(name, theirs) == 0) found = ours;
    return found.empty();
  });
  return found;
}

// Looks up the key or, failing that, its last parts.
std::string_view look_up_parts(const Names* begin, const Names* end, std::string_view theirs) {
  for (;;) {
    const std::string_view ours = look_up(begin, end, theirs);
    const size_t dot = theirs.find('.');
    if (!ours.empty() || dot == std::string_view::npos) return ours;
    theirs.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string_view our_name_for_key(std::string_view foreign_key) {
  return look_up_parts(std::begin(kKeys), std::end(kKeys), foreign_key);
}

std::string_view closest_foreign_key(std::string_view key, size_t limit) {
  std::string_view best;
  for (;;) {
    // There are many of these names, so fewer letters may be wrong than in one of ours.
    size_t best_distance = std::min<size_t>(limit, key.size() < 4 ? 0 : key.size() < 8 ? 2 : 3);
    each_name(std::begin(kKeys), std::end(kKeys), [&](std::string_view name, std::string_view) {
      const size_t distance = edit_distance(name, key);
      if (distance < best_distance) best = name, best_distance = distance;
      return true;
    });
    const size_t dot = key.find('.');
    if (!best.empty() || dot == std::string_view::npos) return best;
    key.remove_prefix(dot + 1);
  }
}

std::string_view why_needless(std::string_view foreign_key) {
  const std::string_view why = look_up_parts(std::begin(kNeedless), std::end(kNeedless), foreign_key);
  return why.empty() ? look_up_parts(std::begin(kAbsent), std::end(kAbsent), foreign_key) : why;
}

std::string_view our_value_for(std::string_view foreign_value) {
  return look_up(std::begin(kValues), std::end(kValues), foreign_value);
}

std::string_view our_name_for_verb(std::string_view foreign_verb) {
  return look_up(std::begin(kVerbs), std::end(kVerbs), foreign_verb);
}

std::string_view our_name_for_option(std::string_view foreign_option) {
  const std::string_view ours = look_up(std::begin(kFlags), std::end(kFlags), foreign_option);
  return ours.empty() ? our_name_for_key(foreign_option) : ours;
}

std::string_view our_name_for_table(std::string_view foreign_table) {
  return look_up(std::begin(kTables), std::end(kTables), foreign_table);
}

}  // namespace pipeline::config
