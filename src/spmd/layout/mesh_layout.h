/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_layout.h - device meshes, and which shard of a tensor each device holds.
 *
 * A dimension of a tensor is split along some axes of the mesh. The first axis of the mesh is the
 * outermost: the dimension is split along rows, then each shard along cols. Shard sizes differ by
 * at most one (7 over 3: 3, 2, 2), whatever the axes, unless the mesh has shares. Sizes are counted
 * in grains: a grain is the number of neighbouring elements that stay together. Devices that differ
 * only along axes that split nothing hold the same shard; if they differ along axes of `partial`,
 * each holds a partial sum of it. */
#ifndef MF_SPMD_LAYOUT_MESH_LAYOUT_H
#define MF_SPMD_LAYOUT_MESH_LAYOUT_H

#include "graph/split.h"

enum {
    MF_MESH_AXES = 8,
    MF_MESH_RULES = 64,
    MF_MESH_DEVICES = 4096,
    MF_MESH_NAME = 32,
    MF_MESHES = 32,
    MF_MESH_CHUNKS = 256, /* of layers, over all meshes */
    MF_MESH_SHARES = 64, /* maximum size of an axis with shares */
    MF_MESH_SHARE = 1000000, /* the largest share */
};

typedef uint32_t mf_axes; /* one bit per axis of the mesh */

typedef struct mf_mesh {
    int n_axes;
    char name[MF_MESH_AXES][MF_MESH_NAME];
    int size[MF_MESH_AXES];
    /* By axis and index: the sum of the shares before the index; the last element is the total.
     * Total 0: equal shares. */
    int32_t before[MF_MESH_AXES][MF_MESH_SHARES + 1];
    int n; /* devices; the last axis varies fastest */
    int first; /* number of its first device: the meshes of a job are numbered consecutively */
} mf_mesh;

/* Parses "rows:2;cols:2"; in "rows:3,1;cols:2" the first row gets three times as much as the second
 * of a dimension that is split along rows. Fails: INVALID_ARGUMENT with the reason. */
MF_MUST mf_status mf_mesh_parse(const char *text, mf_mesh *out);
static inline bool mf_mesh_has(const mf_mesh *m, int device)
{
    return device >= m->first && device < m->first + m->n;
}
/* True if both have the same axes, so that layouts of one are valid for the other. */
bool mf_mesh_alike(const mf_mesh *a, const mf_mesh *b);
/* The text that mf_mesh_parse() accepts. Owns: mf_buf_deinit(out). */
void mf_mesh_text(const mf_mesh *m, mf_buf *out);
/* Append an axis of `size` equal places. The mesh has had {.n = 1} before the first one, fewer than
 * MF_MESH_AXES axes, and none of this name. */
void mf_mesh_add_axis(mf_mesh *m, const char *name, int size);
/* Are the places along one of its axes unequal? */
bool mf_mesh_has_shares(const mf_mesh *m);
/* Index of a device along an axis. */
int mf_mesh_at(const mf_mesh *m, int device, int axis);
/* Number of devices that differ only along these axes. */
int mf_mesh_count(const mf_mesh *m, mf_axes axes);
/* Index of the device in that group, 0 to count - 1; and the i-th device of its group. */
int mf_mesh_index(const mf_mesh *m, mf_axes axes, int device);
int mf_mesh_nth(const mf_mesh *m, mf_axes axes, int device, int i);

typedef struct mf_layout_dim {
    mf_axes axes; /* 0: not split */
    int64_t grain; /* 0 if not split */
} mf_layout_dim;

typedef struct mf_layout {
    mf_layout_dim dims[MF_MAX_RANK];
    mf_axes partial; /* along these axes, each device holds a partial result */
    mf_cut how; /* if partial: the reduction, a sum, maximum or minimum */
} mf_layout;

bool mf_layout_equal(const mf_layout *a, const mf_layout *b);
/* Axes that split any dimension. */
mf_axes mf_layout_cuts(const mf_layout *l, int rank);
/* True if every device holds the whole tensor. */
bool mf_layout_is_whole(const mf_layout *l, int rank);
/* "[rows,.,cols*64] sum over rows" */
enum { MF_LAYOUT_TEXT = 512 };
const char *mf_layout_text(const mf_mesh *m, const mf_layout *l, int rank,
                           char text[MF_LAYOUT_TEXT]);

/* A rectangular part of a tensor. */
typedef struct mf_box {
    int64_t begin[MF_MAX_RANK], size[MF_MAX_RANK];
} mf_box;

int64_t mf_box_count(const mf_box *b, int rank);
/* Intersection; false: it is empty. */
bool mf_box_cut(const mf_box *a, const mf_box *b, int rank, mf_box *out);
/* The part that a device holds. */
mf_box mf_layout_box(const mf_mesh *m, const mf_layout *l, const mf_shape *shape, int device);
/* The same for one dimension of `size` elements. */
void mf_layout_piece(const mf_mesh *m, mf_layout_dim cut, int64_t size, int device, int64_t *begin,
                     int64_t *end);

/* ---- layout rules ---- */

typedef struct mf_layout_rules {
    int n;
    char dim[MF_MESH_RULES][MF_MESH_NAME], axis[MF_MESH_RULES][MF_MESH_NAME];
} mf_layout_rules;

/* Parses "batch:rows;hidden:cols". A dimension may have several axes: "batch:rows;batch:cols". */
MF_MUST mf_status mf_layout_rules_parse(const char *text, mf_layout_rules *out);
/* As mf_layout_rules_parse() reads it; "" without rules. Owns: mf_buf_deinit(out). */
void mf_layout_rules_text(const mf_layout_rules *r, mf_buf *out);
/* Append a rule. INVALID_ARGUMENT: there are MF_MESH_RULES already. */
MF_MUST mf_status mf_layout_rules_add(mf_layout_rules *r, const char *dim, const char *axis);
/* The axes of this mesh that cut dimensions of this name. */
mf_axes mf_layout_rules_find(const mf_layout_rules *r, const mf_mesh *m, const char *name);
/* True if any rule names this dimension. */
bool mf_layout_rules_has(const mf_layout_rules *r, const char *name);

/* ---- several meshes ---- */

/* Several meshes are the stages of a pipeline, in order: the first holds the first layers. */
typedef struct mf_meshes {
    int n, devices;
    mf_mesh at[MF_MESHES];
} mf_meshes;

/* Meshes and layout rules as the user writes them: the axes of stages are still axes. */
typedef struct mf_mesh_spec {
    int n;
    mf_mesh at[MF_MESHES]; /* n of them; `first` is 0 */
    mf_layout_rules rules;
} mf_mesh_spec;

/* "rows:2;cols:2", or several, "rows:2 | cols:3"; and rules (NULL: none). INVALID_ARGUMENT says
 * what is wrong with the text. */
MF_MUST mf_status mf_mesh_spec_parse(const char *mesh, const char *layout, mf_mesh_spec *out);
/* As mf_mesh_spec_parse() reads them. Owns: mf_buf_deinit() of both. */
void mf_mesh_spec_text(const mf_mesh_spec *s, mf_buf *mesh, mf_buf *layout);
/* One mesh, without rules. */
void mf_mesh_spec_one(const mf_mesh *m, mf_mesh_spec *out);
/* The meshes that the spec describes. Where rules cut the dimension `layers` along axes, each index
 * along these axes is a mesh of the other axes: "stages:2;rows:2" with "layers:stages" is
 * "rows:2 | rows:2". INVALID_ARGUMENT: too many meshes, an axis that no mesh has, or rules that
 * exclude each other. */
MF_MUST mf_status mf_mesh_spec_expand(const mf_mesh_spec *s, mf_meshes *out);
/* Parses and expands. */
MF_MUST mf_status mf_meshes_parse(const char *text, const char *layout, mf_meshes *out,
                                  mf_layout_rules *rules);
/* A list of one mesh. */
void mf_meshes_one(const mf_mesh *m, mf_meshes *out);
/* Index of the mesh that contains the device. */
int mf_meshes_of(const mf_meshes *m, int device);

#endif
