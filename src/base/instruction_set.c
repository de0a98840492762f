/* SPDX-License-Identifier: Apache-2.0 */
/* instruction_set.c - what the processor has, and which instruction set is used. */
#include "base/instruction_set.h"

#include "base/host_state.h"
#include "base/log.h"

#include <meshflow/numerics.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* MF_SETS: the names of the sets that were built besides the baseline, separated by spaces. */
static const char built[] = " " MF_BASE_SET " " MF_SETS " ";
static const char *const names[MF_ISA_COUNT] = { MF_BASE_SET, "avx512", "avx512_bf16", "amx" };

atomic_int mf_isa_in_use = -1;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static int pinned = -1;
static bool environment_is_read;
static char environment_error[300];

static pthread_once_t probed = PTHREAD_ONCE_INIT;
static bool available[MF_ISA_COUNT];
static char available_text[128];

/* ---- the processor ---- */

#if defined(__x86_64__)

static bool has_base(void)
{
    return strcmp(MF_BASE_SET, "avx2") != 0 ||
           (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi2"));
}

static bool has_avx512(void) /* x86-64-v4 */
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static bool has_avx512_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
}

/* The kernel grants the tile registers to a process that asks for them. */
static bool has_amx(void)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25 }; /* leaf 7, EDX */
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    const unsigned wanted = AMX_BF16 | AMX_TILE | AMX_INT8;
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

#else

static bool has_base(void)
{
    return true;
}

static bool has_avx512(void)
{
    return false;
}

static bool has_avx512_bf16(void)
{
    return false;
}

static bool has_amx(void)
{
    return false;
}

#endif

static bool is_built(const char *name)
{
    const size_t n = strlen(name);

    for (const char *at = strstr(built, name); at; at = strstr(at + 1, name)) {
        if (at[-1] == ' ' && at[n] == ' ')
            return true;
    }
    return false;
}

/* A set is available only if the sets that it contains are. */
static void probe(void)
{
    static bool (*const has[MF_ISA_COUNT])(void) = { has_base, has_avx512, has_avx512_bf16,
                                                     has_amx };
    bool lower = true;

#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    for (int i = 0; i < MF_ISA_COUNT && lower; i++) {
        const size_t n = strlen(available_text);

        lower = has[i]();
        available[i] = lower && is_built(mf_isa_name((mf_isa)i));
        if (available[i])
            (void)snprintf(available_text + n, sizeof available_text - n, "%s%s", n ? ", " : "",
                           mf_isa_name((mf_isa)i));
    }
}

bool mf_isa_is_available(mf_isa isa)
{
    (void)pthread_once(&probed, probe);
    return available[isa];
}

const char *mf_isa_available_text(void)
{
    (void)pthread_once(&probed, probe);
    return available_text;
}

mf_isa mf_isa_best(void)
{
    int best = MF_ISA_COUNT - 1;

    while (best > MF_ISA_BASE && !mf_isa_is_available((mf_isa)best))
        best--;
    return (mf_isa)best;
}

/* ---- names ---- */

const char *mf_isa_name(mf_isa isa)
{
    return names[isa];
}

mf_status mf_isa_find(const char *name, mf_isa *out)
{
    for (int i = 0; i < MF_ISA_COUNT; i++) {
        if (strcmp(mf_isa_name((mf_isa)i), name) == 0) {
            *out = (mf_isa)i;
            return MF_OK;
        }
    }
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "unknown instruction set '%.60s'; this machine and this build have: %s", name,
                   mf_isa_available_text());
}

static mf_status find_available(const char *name, mf_isa *out)
{
    MF_TRY(mf_isa_find(name, out));
    if (!mf_isa_is_available(*out))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "instruction set %s is not available; this machine and this build have: %s",
                       name, mf_isa_available_text());
    return MF_OK;
}

/* ---- the choice ---- */

/* The caller holds the lock. */
static void read_environment(void)
{
    const char *name = getenv("MESHFLOW_NUMERICS");
    mf_isa isa;

    if (environment_is_read)
        return;
    environment_is_read = true;
    if (!name || !name[0] || pinned >= 0)
        return;
    if (find_available(name, &isa) == MF_OK)
        pinned = (int)isa;
    else
        (void)snprintf(environment_error, sizeof environment_error, "MESHFLOW_NUMERICS: %s",
                       mf_error_message());
}

mf_status mf_isa_pin(const char *name)
{
    mf_status st = MF_OK;
    mf_isa isa;
    int in_use;

    MF_TRY(find_available(name, &isa));
    pthread_mutex_lock(&lock);
    in_use = atomic_load(&mf_isa_in_use);
    if (in_use >= 0 && in_use != (int)isa)
        st = MF_FAIL(MF_FAILED_PRECONDITION,
                     "kernels of instruction set %s are in use; choose %s before the first session",
                     mf_isa_name((mf_isa)in_use), name);
    else
        pinned = (int)isa;
    pthread_mutex_unlock(&lock);
    return st;
}

mf_isa mf_isa_limit(void)
{
    mf_isa isa;

    pthread_mutex_lock(&lock);
    read_environment();
    isa = pinned >= 0 ? (mf_isa)pinned : mf_isa_best();
    pthread_mutex_unlock(&lock);
    return isa;
}

mf_isa mf_isa_choose(void)
{
    int none = -1;

    (void)atomic_compare_exchange_strong(&mf_isa_in_use, &none, (int)mf_isa_limit());
    return (mf_isa)atomic_load(&mf_isa_in_use);
}

mf_isa mf_isa_bits(mf_isa isa)
{
    return isa >= MF_ISA_AVX512_BF16 ? isa : MF_ISA_BASE;
}

void mf_isa_lower(mf_isa bits)
{
    int isa = (int)mf_isa_limit();

    while (isa > MF_ISA_BASE &&
           (mf_isa_bits((mf_isa)isa) > bits || !mf_isa_is_available((mf_isa)isa)))
        isa--;
    pthread_mutex_lock(&lock);
    pinned = isa;
    if (atomic_load(&mf_isa_in_use) > isa)
        atomic_store(&mf_isa_in_use, isa);
    pthread_mutex_unlock(&lock);
}

void mf_isa_switch(mf_isa isa)
{
    atomic_store(&mf_isa_in_use, (int)isa);
}

mf_status mf_isa_check(void)
{
    if (!mf_isa_is_available(MF_ISA_BASE))
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "this build needs a processor with AVX2, FMA and BMI2; build again with "
                       "cmake -DMF_MARCH=x86-64");
    (void)mf_isa_limit();
    return environment_error[0] ? MF_FAIL(MF_INVALID_ARGUMENT, "%s", environment_error) : MF_OK;
}

mf_status mf_numerics_pin(const char *instruction_set)
{
    MF_ENTRY;
    if (!instruction_set)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the instruction set is NULL; this machine has: %s",
                       mf_isa_available_text());
    return mf_isa_pin(instruction_set);
}
