#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>

#include "core/config/error.hpp"
#include "core/config/option.hpp"
#include "core/config/suggest.hpp"
#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

class UnknownNames : public ConfigFiles {
 protected:
  static std::string problem(const std::string& line) {
    return problems("task.plugin = 't'\n" + line + "\n");
  }
};

TEST_F(UnknownNames, WhatIsAlwaysOnNeedsNoKey) {
  EXPECT_EQ(problem("train.find_unused_parameters = true"),
            "x.toml:2: train.find_unused_parameters = true: unknown key: leave it out: parameters that a "
            "step does not use are always found, at no cost");
  EXPECT_EQ(problem("optimizer.set_to_none = true"),
            "x.toml:2: optimizer.set_to_none = true: unknown key: leave it out: gradients are always "
            "cleared, at no cost: none is set to zero that the next one does not need");
}

TEST_F(UnknownNames, WhatIsNotThereIsAnsweredWithWhatIs) {
  for (const auto& [theirs, ours] : {std::pair("packing", "none is padded"),
                                     {"attn_implementation", "one attention for each device"},
                                     {"use_dora", "lora.rank"},
                                     {"load_in_4bit", "train.frozen_precision = \"nf4\""},
                                     {"neftune_noise_alpha", "optimizer.weight_decay"},
                                     {"push_to_hub", "`pipeline export`"}})
    for (const std::string& place : {std::string(), std::string("train."), std::string("zebra.")}) {
      const std::string message = problem(place + theirs + " = 1");
      EXPECT_NE(message.find("unknown key: leave it out: "), std::string::npos) << message;
      EXPECT_NE(message.find(ours), std::string::npos) << message;
    }
  EXPECT_EQ(problem("optimizer.kind = 'adamw_8bit'"),
            "x.toml:2: optimizer.kind = \"adamw_8bit\": is not one of adamw, sgd or muon: write \"adamw\" "
            "with optimizer.state_bits = 8");
  EXPECT_EQ(problem("optimizer.kind = 'adamw_torch'"),
            "x.toml:2: optimizer.kind = \"adamw_torch\": is not one of adamw, sgd or muon: write \"adamw\"");
}

TEST_F(UnknownNames, MisspeltKeysAndTables) {
  EXPECT_EQ(problem("train.max_stepz = 3"),
            "x.toml:2: train.max_stepz = 3: unknown key: did you mean train.max_steps?");
  EXPECT_EQ(problem("train.Max-Steps = 3"),
            "x.toml:2: train.Max-Steps = 3: unknown key: did you mean train.max_steps?");
  EXPECT_EQ(problem("train.mciro_batch = 3"),
            "x.toml:2: train.mciro_batch = 3: unknown key: did you mean train.micro_batch?");
  EXPECT_EQ(problem("[trian]\nmax_steps = 3"), "x.toml:2: [trian]: unknown table: did you mean [train]?");
  EXPECT_EQ(problem("[Train]\nmax_steps = 3"), "x.toml:2: [Train]: unknown table: did you mean [train]?");
  EXPECT_EQ(problem("[strategies]"), "x.toml:2: [strategies]: unknown table: did you mean [strategy]?");
  EXPECT_EQ(problem("[train.foo]\nx = 1"),
            "x.toml:2: [train.foo]: unknown table: [train] has no tables in it");
  EXPECT_EQ(problem("[zebra]"),
            "x.toml:2: [zebra]: unknown table: there is backend, checkpoint, evaluate, export, launch, "
            "loader, observe, optimizer, plugins, run, schedule, stage, strategy, task or train");
  EXPECT_EQ(problem("[loader]\nzebra = 1"),
            "x.toml:3: loader.zebra = 1: unknown key: [loader] has workers, processes, prefetch, pin_memory, "
            "shuffle, group_by_length or group_window");
  EXPECT_EQ(problem("train.zebra = 1"),
            "x.toml:2: train.zebra = 1: unknown key: `pipeline explain` lists all keys");
}

TEST_F(UnknownNames, OfATableInAnArgumentAreTakenForTheTableThatIsMeant) {
  EXPECT_EQ(set_problem("tsk.mask_ratio=0.1"),
            "--set tsk.mask_ratio=0.1: unknown table: did you mean [task]?");
  EXPECT_EQ(set_problem("tsk.model.layers=1"),
            "--set tsk.model.layers=1: unknown table: did you mean [task]?");
  EXPECT_EQ(set_problem("trian.max_steps=1"),
            "--set trian.max_steps=1: unknown key: did you mean train.max_steps?");
  EXPECT_EQ(set_problem("train.zebra=1"),
            "--set train.zebra=1: unknown key: `pipeline explain` lists all keys");
}

TEST_F(UnknownNames, OfCoreAndPluginsAreAllSaidAtOnce) {
  write("x.toml",
        "[task]\nplugin = 't'\nzebra = 1\n[task.data]\ntrian = 2\n[tsk.split]\n[train]\nmax_stepz = 3\n");
  const auto options = task_options();
  const auto problems = [&](bool found) {
    return problems_of([&] {
      const KnownPlugins plugins{.options =
                                     [&](std::string_view table, const std::string& plugin) {
                                       EXPECT_EQ(std::string(table) + "." + plugin, "task.t");
                                       return found ? std::optional<std::span<const pl_option>>(options)
                                                    : std::nullopt;
                                     },
                                 .owners = {}};
      load({.file = "x.toml", .sets = {}, .stage = {}, .find_plugins = [&](const auto&) { return plugins; }});
    });
  };
  const std::string core =
      "x.toml:6: [tsk]: unknown table: did you mean [task]?\n"
      "x.toml:8: train.max_stepz = 3: unknown key: did you mean train.max_steps?";
  EXPECT_EQ(problems(false), core);
  const std::string both = problems(true);
  EXPECT_NE(both.find("x.toml:3: task.zebra = 1: unknown key"), std::string::npos) << both;
  EXPECT_NE(both.find("x.toml:5: task.data.trian = 2: unknown key: did you mean task.data.train?"),
            std::string::npos)
      << both;
  EXPECT_NE(both.find("\n" + core), std::string::npos) << both;
}

TEST_F(UnknownNames, ThatAnotherPluginKnowsAreSaidToBeItsOptions) {
  write("x.toml", "[task]\nplugin = 't'\nmodel.width = 1\nmodel.depth = 2\nzero_stag = 3\n");
  const FindOwners owners = [](std::string_view table) -> Owners {
    EXPECT_EQ(table, "task");
    return {{"model.bias", {"t", "v"}}, {"model.width", {"u", "v"}}, {"zero_stage", {"u"}}};
  };
  const std::string told = problems_of([&] {
    load({.file = "x.toml", .sets = {"task.modle.bais=true"}, .stage = ""})
        .plugin("task", task_options(), owners);
  });
  EXPECT_NE(told.find("x.toml:3: task.model.width = 1: unknown key: it is an option of the task u or v: name "
                      "that in task.plugin, or leave the option out"),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("x.toml:4: task.model.depth = 2: unknown key"), std::string::npos) << told;
  EXPECT_EQ(told.find("model.width? It is"), std::string::npos) << told << ": only the table is near";
  EXPECT_NE(told.find("x.toml:5: task.zero_stag = 3: unknown key: did you mean task.zero_stage? It is an "
                      "option of the task u: name that in task.plugin"),
            std::string::npos)
      << told;
  EXPECT_TRUE(told.ends_with("--set task.modle.bais=true: unknown key: did you mean task.model.bias?"))
      << told << ": one of the plugin in use";
}

TEST_F(UnknownNames, KeysInTheWrongTable) {
  EXPECT_EQ(problem("train.weight_decay = 0.1"),
            "x.toml:2: train.weight_decay = 0.1: unknown key: did you mean optimizer.weight_decay?");
  EXPECT_EQ(problem("lr = 0.1"), "x.toml:2: lr = 0.1: unknown key: did you mean optimizer.lr?");
  EXPECT_EQ(problem("max_steps = 1"), "x.toml:2: max_steps = 1: unknown key: did you mean train.max_steps?");
  EXPECT_EQ(problem("seed = 1"), "x.toml:2: seed = 1: unknown key: did you mean run.seed?");
  EXPECT_EQ(problem("train.every = 1"),
            "x.toml:2: train.every = 1: unknown key: did you mean evaluate.every or checkpoint.every?");
}

TEST_F(UnknownNames, QuotedKeysAreNotKeys) {
  EXPECT_EQ(problem("'train.max_steps' = 3"),
            "x.toml:2: \"train.max_steps\" = 3: unknown key: did you mean train.max_steps?");
  EXPECT_EQ(problem("'' = 3"), "x.toml:2: \"\" = 3: unknown key: `pipeline explain` lists all keys");
}

TEST_F(UnknownNames, OfOtherToolsAreAnsweredWithOurs) {
  // Another tool's key, in any table -> the key that the message must name.
  std::istringstream names(R"(
    auto_find_batch_size train.micro_batch
    epochs train.max_epochs  num_train_epochs train.max_epochs  batch_size train.global_batch
    per_device_train_batch_size train.micro_batch
    train_micro_batch_size_per_gpu train.micro_batch
    gradient_accumulation_steps train.accumulation_steps
    accumulate_grad_batches train.accumulation_steps  num_workers loader.workers
    dataloader_num_workers loader.workers  learning_rate optimizer.lr
    max_grad_norm train.clip_grad_norm  gradient_clipping train.clip_grad_norm
    gradient_clip_val train.clip_grad_norm  num_warmup_steps schedule.warmup_steps
    lr_scheduler_type schedule.kind  fp16 train.precision  bf16 train.precision
    mixed_precision train.precision  gradient_checkpointing train.activation_checkpointing
    save_steps checkpoint.every  save_total_limit checkpoint.keep  eval_steps evaluate.every
    logging_steps observe.log_every  metric_for_best_model evaluate.best_metric
    output_dir run.dir  resume_from_checkpoint run.dir  devices launch.processes
    num_nodes launch.processes  nproc_per_node launch.processes
    model_name_or_path train.init_from  dist_backend backend.plugin  deepspeed strategy.plugin
    max_seq_length task.chat.max_tokens  assistant_only_loss task.chat.learn
    lora_r task.language.lora.rank  lora_alpha task.language.lora.alpha
    target_modules task.language.lora.targets  report_to observe.wandb
    dataset_text_field task.data.question_column)");
  for (std::string theirs, ours; names >> theirs >> ours;) {
    // At the top, in a table where it does not belong, and in one that does not exist.
    for (const std::string& place : {std::string(), std::string("observe."), std::string("zebra.")}) {
      const std::string key = place + theirs;
      const std::string message = problem(key + " = 1");
      EXPECT_NE(message.find(key + " = 1: unknown key: write " + ours), std::string::npos) << message;
    }
  }
  EXPECT_THAT(problem("auto_find_batch_size = 1"), testing::HasSubstr("write train.micro_batch = \"auto\""));
  EXPECT_EQ(problem("[zero_optimization]\nstage = 3"),
            "x.toml:2: [zero_optimization]: unknown table: write [strategy]\n"
            "x.toml:3: zero_optimization.stage = 3: unknown key: write strategy.plugin = \"sharded\" with "
            "strategy.zero_stage");
  EXPECT_EQ(problem("[training]\nepochs = 3\nfoo = 1"),
            "x.toml:2: [training]: unknown table: write [train]\n"
            "x.toml:3: training.epochs = 3: unknown key: write train.max_epochs");
  EXPECT_EQ(problem("[model]\nn_head = 3"),
            "x.toml:2: [model]: unknown table: write [task.language]\n"
            "x.toml:3: model.n_head = 3: unknown key: write task.language.num_attention_heads");
}

TEST_F(UnknownNames, OfOtherToolsMayBeMisspelt) {
  EXPECT_EQ(problem("train.gradient_clipp1ng = 1"),
            "x.toml:2: train.gradient_clipp1ng = 1: unknown key: if gradient_clipping is meant, write "
            "train.clip_grad_norm");
  EXPECT_EQ(
      problem("num_train_epohcs = 1"),
      "x.toml:2: num_train_epohcs = 1: unknown key: if num_train_epochs is meant, write train.max_epochs");
  EXPECT_EQ(
      set_problem("optimizer.params.learning_rte=1"),
      "--set optimizer.params.learning_rte=1: unknown key: if learning_rate is meant, write optimizer.lr");
  EXPECT_EQ(problem("loader.worker = 1"),
            "x.toml:2: loader.worker = 1: unknown key: did you mean loader.workers?")
      << "ours first";
}

TEST_F(UnknownNames, EveryAnswerBeginsWithARealKey) {
  std::istringstream names(
      "epochs max_iters time_limit batch_size train_batch_size local_batch_size grad_accum clip_grad "
      "amp init_scale scale_window recompute pretrained base_lr wd adam_beta1 adam_beta2 betas eps "
      "optim lr_schedule warmup warmup_ratio min_lr lr_decay_iters scale_lr num_workers "
      "prefetch_factor use_pinned_memory length_grouped manual_seed deterministic out_dir exp_name "
      "accelerator save_every max_to_keep save_best async_save monitor resume eval_every eval_iters "
      "log_interval verbose progress_bar gpus nnodes num_threads ddp_timeout fsdp ddp_backend "
      "plugin_dir");
  for (std::string theirs; names >> theirs;) {
    const std::string answer(our_name_for_key(theirs));
    const std::string key = answer.substr(0, answer.find_first_of(" :,"));
    const auto options = core_options();
    EXPECT_TRUE(
        std::ranges::any_of(options, [&](const pl_option& option) { return view(option.key) == key; }))
        << theirs << " -> " << answer;
  }
}

TEST_F(UnknownNames, ANameOfOursThatIsTheirsTooIsAmongTheAnswers) {
  for (const pl_option& option : core_options()) {
    const std::string_view answer = our_name_for_key(view(option.key));
    if (!answer.empty()) EXPECT_NE(answer.find(view(option.key)), std::string_view::npos) << answer;
  }
  EXPECT_EQ(problem("dtype = 'bf16'"),
            "x.toml:2: dtype = \"bf16\": unknown key: write train.precision, or export.dtype for the weights "
            "that are written");
}

TEST(Suggest, EditDistanceCountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("train", "trian"), 1u);
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);  // optimal string alignment; unrestricted it would be 2
  EXPECT_EQ(edit_distance("max_steps", "MAX-Steps"), 0u);
}

TEST(Suggest, HugeNamesCostNothing) {
  const std::string huge(1'000'000, 'x');
  EXPECT_EQ(edit_distance(huge, huge), 0u);
  EXPECT_EQ(edit_distance(huge, "x"), 1'000'000u);
}

TEST(Suggest, ClosestIsNearOrNothing) {
  const std::vector<std::string> names{"max_steps", "max_epochs", "micro_batch", "lr"};
  EXPECT_EQ(closest("max_step", names), "max_steps");
  EXPECT_EQ(closest("maxsteps", names), "max_steps");
  EXPECT_EQ(closest("mxa_epochs", names), "max_epochs");
  EXPECT_EQ(closest("workers", names), "");
  EXPECT_EQ(closest("lx", names), "");  // two letters: any would fit
  EXPECT_EQ(closest("LR", names), "lr");
  EXPECT_EQ(closest("", names), "");
}

TEST(Suggest, AlternativesReadAsASentence) {
  EXPECT_EQ(alternatives(std::vector<std::string>{}), "");
  EXPECT_EQ(alternatives(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(alternatives(std::vector<std::string>{"a", "b"}), "a or b");
  EXPECT_EQ(alternatives(std::vector<std::string>{"a", "b", "c"}), "a, b or c");
}

}  // namespace
}  // namespace pipeline::config
