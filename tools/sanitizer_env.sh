# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts that run sanitized programs: options, and `sanitized COMMAND...`.
# Leaks and races inside third-party libraries are suppressed in tools/sanitizers/.
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1
export LSAN_OPTIONS=suppressions=$PWD/tools/sanitizers/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=suppressions=$PWD/tools/sanitizers/tsan.supp:halt_on_error=1:second_deadlock_stack=1

# Kernels that randomise addresses by more bits than the sanitizers of Debian 12 expect make them
# abort at start; without randomisation they run. Some containers forbid disabling it, and do not need it.
sanitized()
{
    if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}
