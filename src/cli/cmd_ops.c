/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ops.c - `meshflow ops`: the supported ops and their properties. */
#include "cli/command.h"
#include "graph/op.h"

#include <stdio.h>
#include <string.h>

static const char *gradient_of(const mf_op *op)
{
    return op->grad == mf_grad_none ? "none" : op->grad == mf_grad_missing ? "missing" : "yes";
}

static const char *kernel_of(const mf_op *op)
{
    if (op->control != MF_CONTROL_NONE)
        return "control";
    return op->start ? "async" : op->loop ? "loop" : op->run ? "yes" : "no";
}

/* The types that the first type attribute allows. If the op has a loop: only types with a loop
 * function. 0: all. */
static uint32_t types_of(const mf_op *op, const mf_opdef *def)
{
    uint32_t loops = MF_T(MF_DTYPE_STRING); /* strings have kernels of their own */

    for (int t = 0; op->loop && t < MF_DTYPE_COUNT; t++)
        loops |= op->loop->fn[t] ? MF_T(t) : 0;
    for (int i = 0; i < def->n_attrs; i++) {
        const uint32_t allowed = def->attrs[i].allowed_types;

        if (def->attrs[i].kind == MF_ATTR_TYPE && !def->attrs[i].is_list)
            return !op->loop ? allowed : allowed ? allowed & loops : loops;
    }
    return 0;
}

static void cmd_ops_print_types(uint32_t types, const char *quote, mf_buf *out)
{
    bool first = true;

    for (int t = 0; t < MF_DTYPE_COUNT; t++) {
        if (!(types >> t & 1))
            continue;
        mf_buf_printf(out, "%s%s%s%s", first ? "" : ",", quote, mf_dtype_name((mf_dtype)t), quote);
        first = false;
    }
}

static void cmd_ops_print_json(const mf_op *op, const mf_opdef *def, mf_buf *out)
{
    mf_buf text = { 0 };

    mf_opdef_print(def, &text);
    mf_buf_printf(out, "{\"name\":\"%s\",\"def\":", op->name);
    mf_buf_json(out, text.data ? text.data : "", text.len);
    mf_buf_printf(out, ",\"gradient\":\"%s\",\"stateful\":%s,\"kernel\":\"%s\",\"inplace\":%s",
                  gradient_of(op), def->is_stateful ? "true" : "false", kernel_of(op),
                  op->flags & MF_OP_INPLACE ? "true" : "false");
    mf_buf_str(out, ",\"types\":[");
    cmd_ops_print_types(types_of(op, def), "\"", out);
    mf_buf_str(out, "],\"samples\":[");
    for (int i = 0; op->samples && op->samples[i]; i++) {
        mf_buf_str(out, i > 0 ? "," : "");
        mf_buf_json(out, op->samples[i], strlen(op->samples[i]));
    }
    mf_buf_str(out, "]}");
    mf_buf_deinit(&text);
}

static void cmd_ops_print_row(const mf_op *op, const mf_opdef *def, mf_buf *out)
{
    const uint32_t types = types_of(op, def);

    mf_buf_printf(out, "%-36s %-8s %-7s %-8s %-8s ", op->name, gradient_of(op), kernel_of(op),
                  op->flags & MF_OP_INPLACE ? "yes"
                  : op->flags & MF_OP_VIEW  ? "view"
                                            : "-",
                  def->is_stateful ? "yes" : "-");
    if (types == 0)
        mf_buf_str(out, "any");
    cmd_ops_print_types(types, "", out);
    mf_buf_str(out, "\n");
}

static mf_status find_named(mf_args *args, const char *name, const mf_op **out)
{
    mf_did_you_mean closest = mf_did_you_mean_to(name);
    int n;
    const mf_op *const *all = mf_op_all(&n);

    *out = mf_op_find(name);
    if (*out)
        return MF_OK;
    for (int i = 0; i < n; i++)
        mf_did_you_mean_try(&closest, all[i]->name);
    if (closest.best)
        mf_args_hint(args, "did you mean %s?", closest.best);
    return MF_FAIL(MF_NOT_FOUND, "there is no op '%.100s'", name);
}

typedef enum form { FORM_TABLE, FORM_JSON, FORM_DEF } form;

static mf_status print_op(const mf_op *op, form f, bool first, mf_buf *out)
{
    const mf_opdef *def;
    const mf_status st = mf_op_def(op, &def);
    char before[100];

    (void)snprintf(before, sizeof before, "op %.80s: ", op->name);
    if (st != MF_OK)
        return mf_error_wrap(st, before, "");
    if (f == FORM_JSON) {
        mf_buf_str(out, first ? "" : ",\n ");
        cmd_ops_print_json(op, def, out);
    } else if (f == FORM_DEF) {
        mf_buf_str(out, op->name);
        mf_opdef_print(def, out);
        mf_buf_str(out, "\n");
    } else {
        cmd_ops_print_row(op, def, out);
    }
    return MF_OK;
}

static mf_status print_all(mf_args *args, form f, mf_buf *out)
{
    int n;
    const mf_op *const *all = mf_op_all(&n);
    const bool named = args->n_words > 0;

    if (named)
        n = (int)args->n_words;
    if (f == FORM_TABLE)
        mf_buf_printf(out, "%-36s %-8s %-7s %-8s %-8s %s\n", "op", "gradient", "kernel", "in place",
                      "stateful", "types");
    mf_buf_str(out, f == FORM_JSON ? "[" : "");
    for (int i = 0; i < n; i++) {
        const mf_op *op = all[i];

        if (named)
            MF_TRY(find_named(args, args->words[i], &op));
        MF_TRY(print_op(op, f, i == 0, out));
    }
    mf_buf_str(out, f == FORM_JSON ? "]\n" : "");
    if (f == FORM_TABLE && !named)
        mf_buf_printf(out, "%d ops\n", n);
    return MF_OK;
}

static mf_status ops_run(mf_args *args)
{
    mf_buf text = { 0 };
    const form f = mf_args_has(args, "json")  ? FORM_JSON
                   : mf_args_has(args, "def") ? FORM_DEF
                                              : FORM_TABLE;
    const mf_status st = print_all(args, f, &text);

    if (st == MF_OK)
        return mf_cli_print(&text);
    mf_buf_deinit(&text);
    return st;
}

static const mf_option options[] = {
    { .name = "def", .help = "print signatures instead of the table" },
    { .name = "json",
      .help =
          "print a JSON array of objects: name, def, gradient (\"yes\", \"none\": not "
          "differentiable, \"missing\": TensorFlow has none either), stateful, kernel, inplace, "
          "types, samples" },
    { 0 },
};

const mf_command mf_command_ops = {
    .name = "ops",
    .arguments = "[NAME]...",
    .summary = "list the supported ops",
    .about = "Names, types and semantics are those of TensorFlow. `types` are the types of the "
             "first type attribute that the kernel supports.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow ops MatMul Relu --def", "meshflow ops --json", NULL },
    .max_args = -1,
    .run = ops_run,
};
