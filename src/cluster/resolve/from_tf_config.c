/* SPDX-License-Identifier: Apache-2.0 */
/* from_tf_config.c - TF_CONFIG, which TensorFlow's users and Kubernetes' operator set. */
#include "cluster/resolve/resolver.h"

#include <string.h>

static bool tf_config_applies(const mf_cluster_request *request)
{
    const char *text = mf_request_env(request, "TF_CONFIG");

    return text && mf_tf_config_speaks(text, strlen(text));
}

static void tf_config_resolve(const mf_cluster_request *request, mf_cluster *c)
{
    const char *text = mf_request_env(request, "TF_CONFIG");

    mf_cluster_fact(c, "cluster", "TF_CONFIG", "JSON of %zu bytes", strlen(text));
    mf_tf_config_decode(c, text, strlen(text), "TF_CONFIG");
}

const mf_resolver mf_resolver_tf_config = {
    .name = "TF_CONFIG",
    .applies = tf_config_applies,
    .resolve = tf_config_resolve,
};
