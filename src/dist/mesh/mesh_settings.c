/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_settings.c - see mesh_settings.h. */
#include "dist/mesh/mesh_settings.h"

#include "dist/strategies.h"

#include <stdlib.h>
#include <string.h>

/* "2,2": how many layers each stage has; none: only what is put there. Interleaved: each chunk. */
static mf_status read_stages(mf_mesh_setup *s, const char *text)
{
    const int wanted = s->meshes.n * s->chunks;
    const char *at = text;
    int n = 0;

    while (*at) {
        char *end;
        const long layers = strtol(at, &end, 10);

        if (end == at || (*end && *end != ',') || layers < (n == 0) || layers > INT16_MAX ||
            n == wanted)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "stages '%s': write how many layers each of the %d %s has: \"2,2\"",
                           text, wanted, s->chunks > 1 ? "chunks" : "stages");
        s->layers[n++] = (int)layers;
        at = end + (*end == ',');
    }
    if (n > 0 && n < wanted)
        return MF_FAIL(MF_INVALID_ARGUMENT, "stages '%s' are %d, but the mesh has %d of them", text,
                       n, wanted);
    return MF_OK;
}

static mf_status read_pipeline(mf_mesh_setup *s, const char *text, int64_t chunks)
{
    static const char *const names[] = { [MF_PIPELINE_1F1B] = "1f1b",
                                         [MF_PIPELINE_GPIPE] = "gpipe",
                                         [MF_PIPELINE_INTERLEAVED] = "interleaved",
                                         [MF_PIPELINE_ZERO_BUBBLE] = "zero-bubble" };
    int how = 0;

    while (how < MF_COUNT(names) && strcmp(text, names[how]) != 0)
        how++;
    if (how == MF_COUNT(names))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "there is no pipeline '%s', only 1f1b, gpipe, interleaved and zero-bubble",
                       text);
    s->pipeline = (mf_pipeline)how;
    if (s->pipeline == MF_PIPELINE_INTERLEAVED && chunks > MF_MESH_CHUNKS / s->meshes.n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%d stages of %lld chunks are more than %d: use fewer",
                       s->meshes.n, (long long)chunks, MF_MESH_CHUNKS);
    s->chunks = s->pipeline == MF_PIPELINE_INTERLEAVED ? (int)chunks : 1;
    return MF_OK;
}

mf_status mf_mesh_setup_read(const mf_options *settings, mf_mesh_setup *s)
{
    MF_TRY(mf_meshes_parse(mf_options_string(settings, "axes"),
                           mf_options_string(settings, "layout"), &s->meshes, &s->rules));
    MF_TRY(read_pipeline(s, mf_options_string(settings, "pipeline"),
                         mf_options_int(settings, "chunks")));
    MF_TRY(read_stages(s, mf_options_string(settings, "stages")));
    s->exact = mf_options_bool(settings, "exact");
    s->n = s->meshes.processors;
    return MF_OK;
}
