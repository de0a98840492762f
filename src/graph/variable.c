/* SPDX-License-Identifier: Apache-2.0 */
/* variable.c - variables: a value behind a lock. Readers take a reference to the storage and never
 * see it change; writers write in place if no reader holds it, else into a copy. */
#include "base/mem.h"
#include "graph/resource.h"

#include <string.h>

static void variable_destroy(mf_object *o)
{
    mf_variable *v = (mf_variable *)o;

    mf_tensor_clear(&v->value);
    pthread_mutex_destroy(&v->lock);
    mf_free(v->name);
    mf_free(v);
}

const mf_object_type mf_variable_type = { .name = "variable", .destroy = variable_destroy };

mf_status mf_variable_make(void *spec, mf_object **out)
{
    const mf_variable_spec *s = spec;
    mf_variable *v = mf_calloc(1, sizeof *v);

    *out = NULL;
    if (!v)
        return MF_NOMEM("a variable");
    v->object.type = &mf_variable_type;
    atomic_store(&v->object.refs, 1);
    v->dtype = s->dtype;
    v->declared = *s->declared;
    v->name = mf_strdup(s->name);
    if (!v->name) {
        mf_free(v);
        return MF_NOMEM("a variable");
    }
    pthread_mutex_init(&v->lock, NULL);
    *out = &v->object;
    return MF_OK;
}

static mf_status uninitialized(const mf_variable *v)
{
    return MF_FAIL(MF_FAILED_PRECONDITION, "Attempting to use uninitialized value %s", v->name);
}

mf_status mf_variable_read(mf_variable *v, mf_tensor *out)
{
    bool have;

    pthread_mutex_lock(&v->lock);
    have = v->value.dtype != MF_DTYPE_INVALID;
    if (have)
        mf_tensor_set(out, &v->value);
    pthread_mutex_unlock(&v->lock);
    return have ? MF_OK : uninitialized(v);
}

mf_status mf_reference_read(mf_tensor *t)
{
    mf_object *o = t->count == 1 ? *(mf_object **)t->data : NULL;
    mf_tensor value = { 0 };

    if (!o || o->type != &mf_variable_type)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a reference to a %s is used as a tensor",
                       o ? o->type->name : "nothing");
    MF_TRY(mf_variable_read((mf_variable *)o, &value));
    mf_tensor_move(t, &value);
    return MF_OK;
}

bool mf_variable_is_initialized(mf_variable *v)
{
    bool have;

    pthread_mutex_lock(&v->lock);
    have = v->value.dtype != MF_DTYPE_INVALID;
    pthread_mutex_unlock(&v->lock);
    return have;
}

static mf_status check_value(const mf_variable *v, const mf_tensor *value, bool validate_shape)
{
    char want[MF_SHAPE_TEXT], have[MF_SHAPE_TEXT];

    if (value->dtype != v->dtype)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Trying to assign variable %s with wrong dtype. Expected %s got %s", v->name,
                       mf_dtype_name(v->dtype), mf_dtype_name(value->dtype));
    if (validate_shape && !mf_shape_compatible(&v->declared, &value->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Assign requires shapes of both tensors to match. lhs shape= %s rhs shape= "
                       "%s (variable %s)",
                       mf_shape_text(&v->declared, want), mf_shape_text(&value->shape, have),
                       v->name);
    return MF_OK;
}

/* Storage in the caller's memory or in a plan may change or be freed: copy. Same shape and sole
 * reference: copy too, so that a training loop keeps its blocks. */
mf_status mf_variable_assign(mf_variable *v, const mf_tensor *value, bool validate_shape)
{
    mf_tensor fresh = { 0 };
    bool in_place;

    MF_TRY(check_value(v, value, validate_shape));
    pthread_mutex_lock(&v->lock);
    in_place = v->value.dtype == value->dtype && v->value.buffer &&
               mf_buffer_is_sole(v->value.buffer) && mf_dtype_is_plain(value->dtype) &&
               mf_shape_equal(&v->value.shape, &value->shape) && v->value.data != value->data;
    if (in_place) {
        memcpy(v->value.data, value->data, (size_t)value->count * mf_dtype_size(value->dtype));
        v->writes++;
    }
    pthread_mutex_unlock(&v->lock);
    if (in_place)
        return MF_OK;
    MF_TRY(mf_tensor_clone(&fresh, value));
    pthread_mutex_lock(&v->lock);
    {
        mf_tensor old = v->value;

        v->value = fresh;
        v->writes++;
        fresh = old;
    }
    pthread_mutex_unlock(&v->lock);
    mf_tensor_clear(&fresh);
    return MF_OK;
}

void mf_variable_exchange(mf_variable *v, mf_tensor *value)
{
    const mf_tensor given = *value;

    pthread_mutex_lock(&v->lock);
    *value = v->value;
    v->value = given;
    v->writes++;
    pthread_mutex_unlock(&v->lock);
}

void mf_variable_reset(mf_variable *v)
{
    pthread_mutex_lock(&v->lock);
    mf_tensor_clear(&v->value);
    v->writes++;
    pthread_mutex_unlock(&v->lock);
}

uint64_t mf_variable_writes(mf_variable *v)
{
    uint64_t n;

    pthread_mutex_lock(&v->lock);
    n = v->writes;
    pthread_mutex_unlock(&v->lock);
    return n;
}

/* Distinct variables in address order, so that concurrent updates cannot deadlock. */
static int sorted(mf_variable *const *v, int n, mf_variable **out)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        int at = 0;

        while (at < count && out[at] < v[i])
            at++;
        if (at < count && out[at] == v[i])
            continue;
        memmove(out + at + 1, out + at, (size_t)(count - at) * sizeof *out);
        out[at] = v[i];
        count++;
    }
    return count;
}

static mf_status make_writable(mf_variable *v)
{
    if (v->value.dtype == MF_DTYPE_INVALID)
        return uninitialized(v);
    v->writes++;
    if (mf_buffer_is_sole(v->value.buffer))
        return MF_OK;
    return mf_tensor_clone(&v->value, &v->value);
}

mf_status mf_variables_begin(mf_variable *const *v, int n)
{
    mf_variable *order[MF_UPDATE_MAX];
    const int count = sorted(v, n, order);
    mf_status st = MF_OK;

    MF_ASSERT(n <= MF_UPDATE_MAX);
    for (int i = 0; i < count; i++)
        pthread_mutex_lock(&order[i]->lock);
    for (int i = 0; i < count && st == MF_OK; i++)
        st = make_writable(order[i]);
    if (st != MF_OK)
        mf_variables_end(v, n);
    return st;
}

void mf_variables_end(mf_variable *const *v, int n)
{
    mf_variable *order[MF_UPDATE_MAX];
    const int count = sorted(v, n, order);

    for (int i = 0; i < count; i++)
        pthread_mutex_unlock(&order[i]->lock);
}
