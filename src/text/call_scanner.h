// call_scanner: a call of a tool, as it is written: its name as soon as it is known, its arguments piece by piece.
// In: what stands behind the opening marker, cut anywhere; a row of reply_formats.def. Out: parts TOOL and ARGUMENTS.
// Invariant: cut anywhere, the parts put together are the same. Arguments are as the model wrote them, where that is JSON;
// pairs become JSON as they come. Once its arguments have begun it is a call, also where the answer is cut in the middle of
// them; before that, what turns out to be none is for the caller to show as it was written. A closing marker inside of a
// JSON string is part of it.
// Example: {"name": "f", "argum → nothing yet; ents": {"a → TOOL "f", ARGUMENTS {"a; ": 1}} → ARGUMENTS ": 1}
#pragma once
#include "text/reply_scanner.h"

typedef struct CallScanner CallScanner;
CallScanner *call_scanner_create(Arena *arena, const ToolFormat *format, const json_t *tools);
void call_scanner_begin(CallScanner *s);         // an opening marker was read

typedef enum CallProgress {
    CALL_GOES_ON,      // behind what was used; where that is nothing, more text is needed
    CALL_ENDED,        // with its closing marker, or with the answer
    CALL_NONE,         // this is no call
} CallProgress;
// *used: bytes of text that are dealt with; where it is no call, those to be shown. has_calls: some were given out since
// the opening marker. is_end: no more text will come. Parts are appended to out, and their texts live on out_arena.
CallProgress call_scanner_step(CallScanner *s, Text text, bool is_end, Arena *out_arena, ReplyParts *out, size_t *used);
bool call_scanner_has_calls(const CallScanner *s);
bool call_scanner_is_cut(const CallScanner *s);  // the answer ended inside of arguments
