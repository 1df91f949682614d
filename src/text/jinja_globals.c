// jinja_globals: range, dict, namespace, cycler, joiner, raise_exception, strftime_now; methods of
// loop and cycler.
// In: arguments. Out: values; raise_exception's message becomes the error, word for word.
// Invariant: a range holds at most 100,000 numbers, as in jinja2's sandbox.
// Example: namespace(found=false).found is false; range(3)|list is [0, 1, 2].
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text/jinja_builtins.h"
#include "text/jinja_eval.h"

enum { RANGE_MAX = 100000, TIME_CHARS = 512 };

static bool whole_arg(JinjaRun *run, const JinjaCall *call, size_t i, int64_t *out) {
    if (jinja_is_integer(call->all->at[i], out)) return true;
    if (call->all->at[i].kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->all->at[i]);
    return jinja_fail(run, "'%s' object cannot be interpreted as an integer",
                      jinja_type_name(call->all->at[i]));
}

bool jinja_global_range(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    int64_t start = 0, stop, step = 1, span;
    size_t n = call->all->n;
    if (n < 1 || n > 3 || call->all->n_keywords > 0)
        return jinja_fail(run, "range() takes 1 to 3 integers");
    TRY(whole_arg(run, call, n > 1 ? 1 : 0, &stop));
    if (n > 1) TRY(whole_arg(run, call, 0, &start));
    if (n > 2) TRY(whole_arg(run, call, 2, &step));
    if (step == 0) return jinja_fail(run, "range() arg 3 must not be zero");
    bool is_empty = step > 0 ? start >= stop : start <= stop;
    if (!is_empty && __builtin_sub_overflow(stop, start, &span))
        span = step > 0 ? INT64_MAX : INT64_MIN;
    uint64_t distance = is_empty ? 0 : span < 0 ? 0 - (uint64_t)span : (uint64_t)span;
    uint64_t stride = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
    uint64_t count = distance / stride + (distance % stride != 0);
    if (count > RANGE_MAX) return jinja_fail(run, "Range too big: at most %d numbers", RANGE_MAX);
    TRY(jinja_step(run, (size_t)count));
    JinjaList *list = jinja_list_new(run, (size_t)count);
    for (uint64_t i = 0; i < count; i++) // unsigned: the product alone may pass 63 bits
        jinja_list_push(run, list, jinja_int((int64_t)((uint64_t)start + i * (uint64_t)step)));
    list->start = start;
    list->stop = stop;
    list->step = step;
    *out = jinja_sequence(JINJA_RANGE, list);
    return !run->has_failed;
}

// dict(mapping or pairs, name=value ...) into *dict.
static bool fill_dict(JinjaRun *run, const JinjaArgs *args, JinjaDict *dict) {
    if (args->n > 1) return jinja_fail(run, "dict expected at most 1 argument, got %zu", args->n);
    if (args->n == 1 && args->at[0].kind == JINJA_DICT) {
        const JinjaDict *from = args->at[0].dict;
        for (size_t i = 0; i < from->len; i++)
            TRY(jinja_dict_set(run, dict, from->at[i].key, from->at[i].value));
    } else if (args->n == 1) {
        JinjaList *pairs, *pair;
        TRY(jinja_iterate(run, args->at[0], &pairs));
        for (size_t i = 0; i < pairs->len; i++) {
            TRY(jinja_iterate(run, pairs->at[i], &pair));
            if (pair->len != 2)
                return jinja_fail(run, "dict update sequence element has %zu items; 2 are required",
                                  pair->len);
            TRY(jinja_dict_set(run, dict, pair->at[0], pair->at[1]));
        }
    }
    for (size_t i = 0; i < args->n_keywords; i++)
        TRY(jinja_dict_set(run, dict, jinja_string(args->keywords[i].name),
                           args->keywords[i].value));
    return true;
}

bool jinja_global_dict(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    *out = jinja_dict_value(jinja_dict_new(run));
    return fill_dict(run, call->all, out->dict);
}

bool jinja_global_namespace(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    *out = (JinjaValue){.kind = JINJA_NAMESPACE, .dict = jinja_dict_new(run)};
    return fill_dict(run, call->all, out->dict);
}

bool jinja_dict_update(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    *out = jinja_none();
    return fill_dict(run, call->all, call->self.dict);
}

bool jinja_global_raise_exception(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *text;
    (void)out;
    TRY(jinja_to_string(run, call->arg[0], &text));
    return jinja_fail(run, "%.*s", (int)(text->len > 800 ? 800 : text->len), text->at);
}

// Microseconds are Python's %f, which strftime lacks; the clock given has none.
static bool python_format(JinjaRun *run, const JinjaString *format, char out[TIME_CHARS]) {
    size_t n = 0;
    if (format->len > TIME_CHARS / 4)
        return jinja_fail(run, "a time format of more than %d bytes", TIME_CHARS / 4);
    for (size_t i = 0; i < format->len; i++) {
        bool is_mark = format->at[i] == '%' && i + 1 < format->len;
        const char *text = is_mark && format->at[i + 1] == 'f' ? "000000" : NULL;
        size_t len = text ? 6 : is_mark ? 2 : 1;
        memcpy(out + n, text ? text : format->at + i, len);
        n += len;
        i += is_mark;
    }
    out[n] = 0;
    return true;
}

bool jinja_global_strftime_now(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    char format[TIME_CHARS], text[TIME_CHARS];
    JinjaString *s;
    struct tm local;
    time_t now = (time_t)run->now;
    TRY(jinja_arg_string(run, call, 0, NULL, &s));
    TRY(python_format(run, s, format));
    if (!localtime_r(&now, &local))
        return jinja_fail(run, "the clock shows a time that has no date");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(text, sizeof text, format, &local);
#pragma GCC diagnostic pop
    JinjaBuilder b = jinja_builder(run);
    jinja_append(&b, text, n, jinja_origin(s));
    return jinja_finish(&b, out);
}

// ---- cycler, joiner, loop ----

bool jinja_global_cycler(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    if (call->all->n == 0) return jinja_fail(run, "at least one item has to be provided");
    JinjaCycler *cycler = arena_new(run->arena, sizeof *cycler);
    *cycler = (JinjaCycler){.at = call->all->at, .len = call->all->n};
    *out = (JinjaValue){.kind = JINJA_CYCLER, .cycler = cycler};
    return true;
}

bool jinja_cycler_next(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaCycler *cycler = call->self.cycler;
    (void)run;
    *out = cycler->at[cycler->position];
    cycler->position = (cycler->position + 1) % cycler->len;
    return true;
}

bool jinja_cycler_reset(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    call->self.cycler->position = 0;
    *out = jinja_none();
    return true;
}

bool jinja_global_joiner(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaCycler *joiner = arena_new(run->arena, sizeof *joiner);
    joiner->at = arena_new(run->arena, sizeof *joiner->at);
    joiner->at[0] = call->arg[0].kind == JINJA_ABSENT ? jinja_cstring(run, ", ") : call->arg[0];
    *out = (JinjaValue){.kind = JINJA_JOINER, .cycler = joiner};
    return true;
}

bool jinja_loop_cycle(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    if (call->all->n == 0) return jinja_fail(run, "no items for cycling given");
    *out = call->all->at[call->self.loop->index0 % call->all->n];
    return true;
}

bool jinja_loop_changed(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *list = jinja_list_new(run, call->all->n);
    for (size_t i = 0; i < call->all->n; i++) jinja_list_push(run, list, call->all->at[i]);
    JinjaValue now = jinja_sequence(JINJA_TUPLE, list);
    *out = jinja_bool(!jinja_equal(run, call->self.loop->last_seen, now));
    call->self.loop->last_seen = now;
    return !run->has_failed;
}
