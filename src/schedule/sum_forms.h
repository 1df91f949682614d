// sum_forms: what becomes of sums of few long steps (schedule/addends), where a target's tiles may share them.
#pragma once

typedef enum SumForm {
    SUMS_ORDERED,              // a tile does all steps of its elements
    SUMS_PARTS,                // each step is a tile's, and its addend is kept; a later kernel adds them up in order
    SUMS_ATOMIC,               // each step is a tile's, and is added to memory in whatever order: other bits each time
    SUM_FORMS
} SumForm;
static const char *const sum_form_names[SUM_FORMS] = {"ordered", "parts", "atomic"};
