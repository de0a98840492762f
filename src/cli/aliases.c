/* SPDX-License-Identifier: Apache-2.0 */
/* aliases.c - old spellings of commands. */
#include "cli/command.h"

#include <string.h>

const mf_alias mf_aliases[] = {
    { "jobs", "job list" },       { "status", "job status" },   { "hang", "job hang" },
    { "set", "job set" },         { "vars", "job vars" },       { "join", "job join" },
    { "leave", "job leave" },     { "drain", "job drain" },     { "scale", "job scale" },
    { "queue", "queue list" },    { "submit", "queue submit" }, { "cancel", "queue cancel" },
    { "attach", "queue attach" }, { "daemon", "queue daemon" }, { "env", "doctor env" },
    { "topo", "doctor topo" },    { "events show", "events" },  { NULL, NULL },
};

const char *mf_alias_find(const char *old)
{
    for (const mf_alias *a = mf_aliases; a->old; a++) {
        if (strcmp(a->old, old) == 0)
            return a->name;
    }
    return NULL;
}
