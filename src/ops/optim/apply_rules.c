/* SPDX-License-Identifier: Apache-2.0 */
/* apply_rules.c - the update rules. Each consists of two macros: SETUP_x, computed once per span
 * from the hyperparameters (H(0), H(1)... in the type C of the computation), and STEP_x, which
 * reads `grad` and reads and writes `var` and the slots a, b, c of one element. */
#include "ops/optim/apply_engine.h"

#include <sleef.h>

/* clang-format off: one loop per rule and type */
#define SQRT(x) _Generic((x), float : __builtin_sqrtf, double : __builtin_sqrt)(x)
#define ABS(x) _Generic((x), float : __builtin_fabsf, double : __builtin_fabs)(x)
#define POW(x, y) _Generic((x), float : Sleef_powf_u10, double : Sleef_pow_u10)(x, y)
#define EXP(x) _Generic((x), float : Sleef_expf_u10, double : Sleef_exp_u10)(x)
/* NaN stays NaN: a bad gradient must not be hidden in a weight. */
#define MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define SIGN(x) ((x) != (x) ? (x) : (C)((x) > 0) - (C)((x) < 0))
#define H(i) ((C)s->hyper[i])

#define SLOTS_1(M, kind) M(0, var, kind)
#define SLOTS_2(M, kind) SLOTS_1(M, kind) M(1, a, kind)
#define SLOTS_3(M, kind) SLOTS_2(M, kind) M(2, b, kind)
#define SLOTS_4(M, kind) SLOTS_3(M, kind) M(3, c, kind)
#define POINTER(i, x, kind) MF_S_##kind *p_##x = s->slot[i];
#define LOAD(i, x, kind) C x = MF_LD_##kind(p_##x, at);
#define STORE(i, x, kind) p_##x[at] = MF_ST_##kind(x);

#define RULE_LOOP(kind, NAME, N)                                                                   \
    static void NAME##_##kind(const mf_rule_span *s)                                               \
    {                                                                                              \
        typedef MF_C_##kind C;                                                                     \
        const MF_S_##kind *p_grad = s->grad;                                                       \
        SLOTS_##N(POINTER, kind) SETUP_##NAME MF_IVDEP for (int64_t at = 0; at < s->n; at++)       \
        {                                                                                          \
            const C grad = MF_LD_##kind(p_grad, at);                                               \
            SLOTS_##N(LOAD, kind) STEP_##NAME SLOTS_##N(STORE, kind)                               \
        }                                                                                          \
    }
#define RULE(NAME, N)                                                                              \
    RULE_LOOP(f32, NAME, N) RULE_LOOP(f64, NAME, N) RULE_LOOP(f16, NAME, N) RULE_LOOP(bf16, NAME, N)

/* (alpha) */
#define SETUP_gradient_descent const C alpha = H(0);
#define STEP_gradient_descent var -= grad * alpha;
RULE(gradient_descent, 1)

/* Shrinks x towards 0 by t, then divides: the proximal step of l1 and l2. */
#define PROXIMAL(x, l1, l2, rate)                                                                  \
    (((l1) > 0 ? SIGN(x) * MAX(ABS(x) - (rate) * (l1), 0) : (x)) / (1 + (l2) * (rate)))

/* (alpha, l1, l2) */
#define SETUP_proximal_descent const C alpha = H(0), l1 = H(1), l2 = H(2);
#define STEP_proximal_descent                                                                      \
    const C x = var - grad * alpha;                                                                \
    var = PROXIMAL(x, l1, l2, alpha);
RULE(proximal_descent, 1)

/* (lr, momentum); accum */
#define SETUP_momentum const C lr = H(0), momentum = H(1);
#define STEP_momentum                                                                              \
    a = a * momentum + grad;                                                                       \
    var -= s->flag ? grad * lr + a * momentum * lr : a * lr;
RULE(momentum, 2)

#define SETUP_keras_momentum const C lr = H(0), momentum = H(1);
#define STEP_keras_momentum                                                                        \
    a = a * momentum - grad * lr;                                                                  \
    var += s->flag ? a * momentum - grad * lr : a;
RULE(keras_momentum, 2)

/* (beta1_power, beta2_power, lr, beta1, beta2, epsilon); m, v [, vhat] */
#define SETUP_adam                                                                                 \
    const C alpha = H(2) * SQRT(1 - H(1)) / (1 - H(0)), beta1 = H(3), rest1 = 1 - H(3),            \
            rest2 = 1 - H(4), epsilon = H(5);
#define ADAM_MOMENTS                                                                               \
    a += (grad - a) * rest1;                                                                       \
    b += (grad * grad - b) * rest2;
#define STEP_adam                                                                                  \
    ADAM_MOMENTS                                                                                   \
    var -= ((s->flag ? grad * rest1 + beta1 * a : a) * alpha) / (SQRT(b) + epsilon);
RULE(adam, 3)

#define STEP_amsgrad                                                                               \
    ADAM_MOMENTS                                                                                   \
    c = MAX(c, b);                                                                                 \
    var -= (a * alpha) / (SQRT(c) + epsilon);
#define SETUP_amsgrad SETUP_adam(void) beta1;
RULE(amsgrad, 4)

/* (beta1_power, lr, beta1, beta2, epsilon); m, v */
#define SETUP_adamax                                                                               \
    const C rate = H(1) / (1 - H(0)), rest1 = 1 - H(2), beta2 = H(3), epsilon = H(4);
#define STEP_adamax                                                                                \
    a += (grad - a) * rest1;                                                                       \
    b = MAX(beta2 * b, ABS(grad));                                                                 \
    var -= rate * (a / (b + epsilon));
RULE(adamax, 3)

/* (lr [, epsilon]); accum. The flag: accum is updated. */
#define SETUP_adagrad const C lr = H(0);
#define STEP_adagrad                                                                               \
    a = s->flag ? a + grad * grad : a;                                                             \
    var -= grad * lr / SQRT(a);
RULE(adagrad, 2)

#define SETUP_adagrad_v2 const C lr = H(0), epsilon = H(1);
#define STEP_adagrad_v2                                                                            \
    a = s->flag ? a + grad * grad : a;                                                             \
    var -= grad * lr / (SQRT(a) + epsilon);
RULE(adagrad_v2, 2)

/* (lr, l1, l2, global_step); sums of gradients and of their squares */
#define SETUP_adagrad_da const C lr = H(0), l1 = H(1) * H(3), l2 = H(2) * H(3) * H(0);
#define STEP_adagrad_da                                                                            \
    a += grad;                                                                                     \
    b += grad * grad;                                                                              \
    const C shrunk = l1 > 0 ? SIGN(a) * MAX(ABS(a) - l1, 0) : a;                                   \
    var = -lr * shrunk / (l2 + SQRT(b));
RULE(adagrad_da, 3)

/* (lr, l1, l2); accum */
#define SETUP_proximal_adagrad const C lr = H(0), l1 = H(1), l2 = H(2);
#define STEP_proximal_adagrad                                                                      \
    a += grad * grad;                                                                              \
    const C rate = lr / SQRT(a), x = var - grad * rate;                                            \
    var = PROXIMAL(x, l1, l2, rate);
RULE(proximal_adagrad, 2)

/* (lr, rho, epsilon); accum, accum_update */
#define SETUP_adadelta const C lr = H(0), rho = H(1), rest = 1 - H(1), epsilon = H(2);
#define STEP_adadelta                                                                              \
    a = a * rho + grad * grad * rest;                                                              \
    const C delta = SQRT(b + epsilon) / SQRT(a + epsilon) * grad;                                  \
    b = b * rho + delta * delta * rest;                                                            \
    var -= delta * lr;
RULE(adadelta, 3)

/* (lr, rho, momentum, epsilon); ms, mom */
#define SETUP_rmsprop const C lr = H(0), rest = 1 - H(1), momentum = H(2), epsilon = H(3);
#define STEP_rmsprop                                                                               \
    a += (grad * grad - a) * rest;                                                                 \
    b = b * momentum + (grad * lr) / SQRT(a + epsilon);                                            \
    var -= b;
RULE(rmsprop, 3)

/* The same; mg, ms, mom */
#define STEP_centered_rmsprop                                                                      \
    b += (grad * grad - b) * rest;                                                                 \
    a += (grad - a) * rest;                                                                        \
    c = c * momentum + (grad * lr) / SQRT((b - a * a) + epsilon);                                  \
    var -= c;
#define SETUP_centered_rmsprop SETUP_rmsprop
RULE(centered_rmsprop, 4)

/* (lr, l1, l2 [, l2_shrinkage], lr_power); accum, linear. The flag: `linear` is multiplied by the
 * learning rate. */
#define FTRL_SETUP(POWER, SHRINKAGE)                                                               \
    const C lr = H(0), power = POWER, shrinkage = 2 * (SHRINKAGE), by = s->flag ? H(0) : 1,        \
            over = s->flag ? 1 : lr, l1 = H(1) * by, l2 = 2 * H(2) * by;
#define FTRL_STEP(ROOT)                                                                            \
    const C sum = a + grad * grad, root = ROOT(sum), shifted = (grad + shrinkage * var) * by;      \
    b += shifted - (root - ROOT(a)) / over * var;                                                  \
    const C clipped = b > l1 ? l1 : b < -l1 ? -l1 : b;                                             \
    var = (clipped - b) / (root / over + l2);                                                      \
    a = sum;
#define FTRL_POWER(x) POW(x, -power)
#define SETUP_ftrl_sqrt                                                                            \
    FTRL_SETUP(H(3), 0)(void) lr;                                                                  \
    (void)power;
#define SETUP_ftrl_v2_sqrt                                                                         \
    FTRL_SETUP(H(4), H(3))(void) lr;                                                               \
    (void)power;
#define STEP_ftrl_sqrt FTRL_STEP(SQRT)
#define STEP_ftrl_power FTRL_STEP(FTRL_POWER)
RULE(ftrl_sqrt, 3)
#define SETUP_ftrl_power SETUP_ftrl_sqrt
RULE(ftrl_power, 3)
#define STEP_ftrl_v2_sqrt STEP_ftrl_sqrt
RULE(ftrl_v2_sqrt, 3)
#define SETUP_ftrl_v2_power SETUP_ftrl_v2_sqrt
#define STEP_ftrl_v2_power STEP_ftrl_power
RULE(ftrl_v2_power, 3)

/* The common power of -1/2 has its own loop, which vectorises. */
#define FTRL_CHOICE(kind, NAME, AT)                                                                \
    static void NAME##_##kind(const mf_rule_span *s)                                               \
    {                                                                                              \
        if (s->hyper[AT] == -0.5)                                                                  \
            NAME##_sqrt_##kind(s);                                                                 \
        else                                                                                       \
            NAME##_power_##kind(s);                                                                \
    }
#define FTRL_CHOICES(NAME, AT)                                                                     \
    FTRL_CHOICE(f32, NAME, AT)                                                                     \
    FTRL_CHOICE(f64, NAME, AT) FTRL_CHOICE(f16, NAME, AT) FTRL_CHOICE(bf16, NAME, AT)
FTRL_CHOICES(ftrl, 3)
FTRL_CHOICES(ftrl_v2, 4)

/* (lr, alpha or logbase, sign_decay, beta); m */
#define SETUP_add_sign const C lr = H(0), alpha = H(1), decay = H(2), beta = H(3);
#define STEP_add_sign                                                                              \
    a = a * beta + grad * (1 - beta);                                                              \
    var -= lr * (alpha + decay * (SIGN(grad) * SIGN(a))) * grad;
RULE(add_sign, 2)

#define SETUP_power_sign                                                                           \
    const C lr = H(0), beta = H(3), same = EXP(H(1) * H(2)), opposite = EXP(-(H(1) * H(2)));
#define STEP_power_sign                                                                            \
    a = a * beta + grad * (1 - beta);                                                              \
    const C sign = SIGN(grad) * SIGN(a);                                                           \
    var -= lr * (sign > 0 ? same : sign < 0 ? opposite : 1 + sign) * grad;
RULE(power_sign, 2)
/* clang-format on */

const mf_rule mf_rules[] = {
    { "GradientDescent", NULL, { MF_FN_FLOATS(gradient_descent) } },
    { "ProximalGradientDescent", NULL, { MF_FN_FLOATS(proximal_descent) } },
    { "Momentum", "use_nesterov", { MF_FN_FLOATS(momentum) } },
    { "KerasMomentum", "use_nesterov", { MF_FN_FLOATS(keras_momentum) } },
    { "Adam", "use_nesterov", { MF_FN_FLOATS(adam) } },
    { "AdamWithAmsgrad", NULL, { MF_FN_FLOATS(amsgrad) } },
    { "AdaMax", NULL, { MF_FN_FLOATS(adamax) } },
    { "Adagrad", "update_slots", { MF_FN_FLOATS(adagrad) } },
    { "AdagradV2", "update_slots", { MF_FN_FLOATS(adagrad_v2) } },
    { "AdagradDA", NULL, { MF_FN_FLOATS(adagrad_da) } },
    { "ProximalAdagrad", NULL, { MF_FN_FLOATS(proximal_adagrad) } },
    { "Adadelta", NULL, { MF_FN_FLOATS(adadelta) } },
    { "RMSProp", NULL, { MF_FN_FLOATS(rmsprop) } },
    { "CenteredRMSProp", NULL, { MF_FN_FLOATS(centered_rmsprop) } },
    { "Ftrl", "multiply_linear_by_lr", { MF_FN_FLOATS(ftrl) } },
    { "FtrlV2", "multiply_linear_by_lr", { MF_FN_FLOATS(ftrl_v2) } },
    { "AddSign", NULL, { MF_FN_FLOATS(add_sign) } },
    { "PowerSign", NULL, { MF_FN_FLOATS(power_sign) } },
    { 0 },
};
