/* SPDX-License-Identifier: Apache-2.0 */
/* resource.h - state that outlives a step: a registry of named objects, and the variable, the only
 * kind of object that plans know. Other kinds (queues, stacks) are defined by their ops. */
#ifndef MF_GRAPH_RESOURCE_H
#define MF_GRAPH_RESOURCE_H

#include "tensor/tensor.h"

#include <pthread.h>

typedef struct mf_resources mf_resources;

MF_MUST mf_status mf_resources_new(mf_resources **out);
void mf_resources_free(mf_resources *resources);
/* The memory account of steps that use these resources. */
mf_mem_account *mf_resources_account(const mf_resources *resources);

/* Creates a new object for mf_resources_get(); *out has one reference. */
typedef mf_status mf_object_make(void *ctx, mf_object **out);

/* The object of that container and name, created if absent ("" is the container "localhost"). *out
 * has a new reference. Fails: INVALID_ARGUMENT (the name refers to an object of another type). */
MF_MUST mf_status mf_resources_get(mf_resources *resources, const char *container, const char *name,
                                   const mf_object_type *type, mf_object_make *make, void *ctx,
                                   mf_object **out);
/* A new reference, or NULL. */
mf_object *mf_resources_find(mf_resources *resources, const char *container, const char *name);
/* Unregister this object under all names; false if it is not registered. */
bool mf_resources_remove(mf_resources *resources, const mf_object *object);
/* Unregister all objects of a container; of all containers. */
void mf_resources_clear(mf_resources *resources, const char *container);
void mf_resources_clear_all(mf_resources *resources);
/* Changes whenever an object is removed: cached lookups are then stale. */
uint64_t mf_resources_generation(const mf_resources *resources);

/* ---- variables: VariableV2 and VarHandleOp both use this type ---- */

typedef struct mf_variable {
    mf_object object;
    pthread_mutex_t lock;
    mf_tensor value; /* guarded by lock; INVALID dtype: uninitialised */
    uint64_t writes; /* guarded by lock: number of writes, except those without the lock */
    mf_dtype dtype; /* of every value */
    mf_shape declared; /* may be partly unknown */
    char *name;
} mf_variable;

extern const mf_object_type mf_variable_type;

/* mf_object_make for variables; ctx is an mf_variable_spec. */
typedef struct mf_variable_spec {
    mf_dtype dtype;
    const mf_shape *declared;
    const char *name;
} mf_variable_spec;
MF_MUST mf_status mf_variable_make(void *spec, mf_object **out);

/* A reference to the current value, which later updates do not change.
 * Fails: FAILED_PRECONDITION "Attempting to use uninitialized value NAME". */
MF_MUST mf_status mf_variable_read(mf_variable *v, mf_tensor *out);
/* Replaces *t, the handle on a reference edge, by the current value of its variable. Fails as
 * mf_variable_read(), and with INVALID_ARGUMENT if it refers to another kind of object. */
MF_MUST mf_status mf_reference_read(mf_tensor *t);
bool mf_variable_is_initialized(mf_variable *v);
/* Replace the value (a reference to `value` is taken). Fails: INVALID_ARGUMENT (the shape
 * contradicts the declared one and `validate_shape` is set, or the type differs). */
MF_MUST mf_status mf_variable_assign(mf_variable *v, const mf_tensor *value, bool validate_shape);
/* Swap the value with *value, which must be a valid value of the variable, without copying. */
void mf_variable_exchange(mf_variable *v, mf_tensor *value);
void mf_variable_reset(mf_variable *v); /* back to uninitialised */
/* Changes with every write, so that owners of copies know when to copy again. */
uint64_t mf_variable_writes(mf_variable *v);

/* Lock several variables (any order, duplicates allowed) and make each value writable: storage that
 * a reader holds is copied first. On failure nothing is locked. Fails for uninitialised variables
 * like mf_variable_read(). */
enum { MF_UPDATE_MAX = 48 }; /* ThreadSanitizer tracks up to 64 locks per thread */
MF_MUST mf_status mf_variables_begin(mf_variable *const *v, int n);
void mf_variables_end(mf_variable *const *v, int n);

#endif
