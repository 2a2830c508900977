// Options and suppressions of the sanitizers, read by their runtime at start. Only libraries that we do not
// build are suppressed.
#define PIPELINE_SANITIZER_HOOK extern "C" __attribute__((visibility("default"), used)) const char*

PIPELINE_SANITIZER_HOOK __asan_default_options();
PIPELINE_SANITIZER_HOOK __asan_default_options() {
  // Containers cross between our instrumented code and LibTorch's, which does not keep ASan's notes on their
  // unused capacity. GCC 12's runtime takes what lies before a loaded library's thread-local variables for
  // their size wherever they happen to begin 16 bytes into a page, and its leak check then reads from a wild
  // address ("Tracer caught signal 11"). It need not know where they are: what the loader allocates counts as
  // reachable without that. An allocation that is too large fails, as it does without the sanitizer.
  return "detect_stack_use_after_return=1:strict_string_checks=1:detect_container_overflow=0:"
         "intercept_tls_get_addr=0:allocator_may_return_null=1";
}

PIPELINE_SANITIZER_HOOK __ubsan_default_options();
PIPELINE_SANITIZER_HOOK __ubsan_default_options() { return "print_stacktrace=1"; }

PIPELINE_SANITIZER_HOOK __lsan_default_options();
PIPELINE_SANITIZER_HOOK __lsan_default_options() { return "print_suppressions=0"; }

PIPELINE_SANITIZER_HOOK __lsan_default_suppressions();
PIPELINE_SANITIZER_HOOK __lsan_default_suppressions() {
  // LibTorch keeps its dispatcher, operator registry and thread pools until the process ends, by design; so
  // does libgomp.
  return "leak:libtorch_cpu.so\n"
         "leak:libc10.so\n"
         "leak:libgomp.so\n";
}

PIPELINE_SANITIZER_HOOK __tsan_default_options();
PIPELINE_SANITIZER_HOOK __tsan_default_options() { return "second_deadlock_stack=1"; }

PIPELINE_SANITIZER_HOOK __tsan_default_suppressions();
PIPELINE_SANITIZER_HOOK __tsan_default_suppressions() {
  // libgomp is not instrumented: its barriers are invisible to the thread sanitizer.
  return "called_from_lib:libgomp.so\n";
}
