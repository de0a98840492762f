/* SPDX-License-Identifier: Apache-2.0 */
/* string_hash.c - strings to bucket numbers: FarmHash's Fingerprint64 (Fast), SipHash-2-4 (Strong)
 * and MurmurHash64A (the old one). All read bytes as little-endian words. */
#include "ops/string/tensor_text.h"

static uint64_t load64(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}
static uint64_t load32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}
static uint64_t rotate(uint64_t v, int n)
{
    return v >> n | v << (64 - n);
}

/* ---- FarmHash Fingerprint64 ---- */

#define K0 0xc3a5c85c97cb3127u
#define K1 0xb492b66fbe98f273u
#define K2 0x9ae16a3b2f90404fu

static uint64_t shift_mix(uint64_t v)
{
    return v ^ v >> 47;
}

static uint64_t mix16(uint64_t u, uint64_t v, uint64_t mul)
{
    const uint64_t a = shift_mix((u ^ v) * mul);

    return shift_mix((v ^ a) * mul) * mul;
}

static uint64_t farm_0_to_16(const char *s, size_t len)
{
    const uint64_t mul = K2 + len * 2;

    if (len >= 8) {
        const uint64_t a = load64(s) + K2, b = load64(s + len - 8);

        return mix16(rotate(b, 37) * mul + a, (rotate(a, 25) + b) * mul, mul);
    }
    if (len >= 4)
        return mix16(len + (load32(s) << 3), load32(s + len - 4), mul);
    if (len > 0) {
        const uint32_t a = (uint8_t)s[0], b = (uint8_t)s[len >> 1], c = (uint8_t)s[len - 1];
        const uint32_t y = a + (b << 8), z = (uint32_t)len + (c << 2);

        return shift_mix(y * K2 ^ z * K0) * K2;
    }
    return K2;
}

static uint64_t farm_17_to_32(const char *s, size_t len)
{
    const uint64_t mul = K2 + len * 2, a = load64(s) * K1, b = load64(s + 8);
    const uint64_t c = load64(s + len - 8) * mul, d = load64(s + len - 16) * K2;

    return mix16(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + K2, 18) + c, mul);
}

static uint64_t farm_33_to_64(const char *s, size_t len)
{
    const uint64_t mul = K2 + len * 2, a = load64(s) * K2, b = load64(s + 8);
    const uint64_t c = load64(s + len - 8) * mul, d = load64(s + len - 16) * K2;
    const uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d;
    const uint64_t z = mix16(y, a + rotate(b + K2, 18) + c, mul);
    const uint64_t e = load64(s + 16) * mul, f = load64(s + 24);
    const uint64_t g = (y + load64(s + len - 32)) * mul, h = (z + load64(s + len - 24)) * mul;

    return mix16(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, mul);
}

typedef struct pair {
    uint64_t first, second;
} pair;

static pair weak32(const char *s, uint64_t a, uint64_t b)
{
    const uint64_t w = load64(s), x = load64(s + 8), y = load64(s + 16), z = load64(s + 24);
    const uint64_t c = a + w;

    b = rotate(b + c + z, 21);
    a = c + x + y;
    b += rotate(a, 44);
    return (pair){ a + z, b + c };
}

/* The state of the long hash, and one round over 64 bytes. */
typedef struct farm {
    uint64_t x, y, z;
    pair v, w;
} farm;

static void farm_round(farm *h, const char *s, uint64_t mul, uint64_t nine)
{
    uint64_t t;

    h->x = rotate(h->x + h->y + h->v.first + load64(s + 8), 37) * mul;
    h->y = rotate(h->y + h->v.second + load64(s + 48), 42) * mul;
    h->x ^= h->w.second * nine;
    h->y += h->v.first * nine + load64(s + 40);
    h->z = rotate(h->z + h->w.first, 33) * mul;
    h->v = weak32(s, h->v.second * mul, h->x + h->w.first);
    h->w = weak32(s + 32, h->z + h->w.second, h->y + load64(s + 16));
    t = h->z;
    h->z = h->x;
    h->x = t;
}

static uint64_t fingerprint64(const char *s, size_t len)
{
    farm h = { .x = 81, .y = 81 * K1 + 113 };
    const char *end, *last;
    uint64_t mul;

    if (len <= 64)
        return len <= 16   ? farm_0_to_16(s, len)
               : len <= 32 ? farm_17_to_32(s, len)
                           : farm_33_to_64(s, len);
    h.z = shift_mix(h.y * K2 + 113) * K2;
    h.x = h.x * K2 + load64(s);
    end = s + (len - 1) / 64 * 64;
    last = s + len - 64;
    for (; s != end; s += 64)
        farm_round(&h, s, K1, 1);
    mul = K1 + ((h.z & 0xff) << 1);
    h.w.first += (len - 1) & 63;
    h.v.first += h.w.first;
    h.w.first += h.v.first;
    farm_round(&h, last, mul, 9);
    return mix16(mix16(h.v.first, h.w.first, mul) + shift_mix(h.y) * K0 + h.z,
                 mix16(h.v.second, h.w.second, mul) + h.x, mul);
}

/* ---- SipHash-2-4 ---- */

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 64 - 13) ^ v[0];
    v[3] = rotate(v[3], 64 - 16) ^ v[2];
    v[0] = rotate(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = rotate(v[3], 64 - 21) ^ v[0];
    v[1] = rotate(v[1], 64 - 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static uint64_t siphash(uint64_t k0, uint64_t k1, const char *s, size_t len)
{
    uint64_t v[4] = { k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                      k1 ^ 0x7465646279746573u };
    uint64_t tail = (uint64_t)len << 56;
    const size_t whole = len / 8;

    for (size_t i = 0; i <= whole; i++) {
        uint64_t m = tail;

        if (i < whole) {
            m = load64(s + 8 * i);
        } else {
            uint64_t rest = 0;

            if (len % 8)
                memcpy(&rest, s + 8 * i, len % 8);
            m |= rest;
        }
        v[3] ^= m;
        sip_round(v);
        sip_round(v);
        v[0] ^= m;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- ops ---- */

typedef struct hash_args {
    char which; /* 'F'ast, 'S'trong, or 0 */
    uint64_t buckets, key[2];
} hash_args;

static mf_status hash_prepare(mf_prepare *p)
{
    hash_args *args = MF_ARENA_NEW(p->arena, hash_args);
    const char *op = p->node->op_name + strlen("StringToHashBucket");
    int64_t n = 0;
    const int64_t *key = *op == 'S' ? mf_node_ints(p->node, "key", &n) : NULL;

    if (!args)
        return MF_NOMEM("a hash");
    args->which = *op;
    args->buckets = (uint64_t)mf_node_int(p->node, "num_buckets");
    if (*op == 'S' && n != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Key must have 2 elements, not %lld", (long long)n);
    for (int i = 0; key && i < 2; i++)
        args->key[i] = (uint64_t)key[i];
    p->state = args;
    return MF_OK;
}

static mf_status hash_run(mf_kernel *k)
{
    const hash_args *args = k->state;
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    for (int64_t i = 0; i < out->count; i++) {
        const mf_string *s = &mf_strings(k->in[0])[i];
        const char *data = mf_string_data(s);
        const uint64_t h = args->which == 'F'   ? fingerprint64(data, s->len)
                           : args->which == 'S' ? siphash(args->key[0], args->key[1], data, s->len)
                                                : mf_murmur(data, s->len);

        ((uint64_t *)out->data)[i] = h % args->buckets;
    }
    return MF_OK;
}

#define HASH_OP(NAME, DEF, ...)                                                                    \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = mf_infer_same, .grad = mf_grad_none,                    \
        .prepare = hash_prepare, .run = hash_run, .samples = MF_SAMPLES(__VA_ARGS__)               \
    }

const mf_op mf_ops_string_hash[] = {
    HASH_OP("StringToHashBucketFast", "(input:string) -> (output:int64) {num_buckets:int>=1}",
            "str[3]{a,hello,} ; num_buckets=1000", "str[2,3] ; num_buckets=9223372036854775807",
            "str[] ; num_buckets=1", "str[0] ; num_buckets=5"),
    HASH_OP("StringToHashBucket", "(string_tensor:string) -> (output:int64) {num_buckets:int>=1}",
            "str[3]{a,hello,} ; num_buckets=1000", "str[2,3] ; num_buckets=9223372036854775807"),
    HASH_OP("StringToHashBucketStrong",
            "(input:string) -> (output:int64) {num_buckets:int>=1, key:list(int)}",
            "str[3]{a,hello,} ; num_buckets=1000 key=[1,2]", "str[4] ; num_buckets=77 key=[-1,5]",
            "str[1] ; num_buckets=7 key=[1] !fails"),
    { 0 },
};
