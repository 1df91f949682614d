// settings: the value of a row of settings.def: an override, else the environment, else its default.
// In: a SettingId. Out: its number or text; never NULL.
// Invariant: a malformed or empty INT reads as its default, so a caller needs no check of its own.
// Example: LATHE_THREADS=4 → setting_int(SETTING_THREADS) == 4; =many → 0 and settings_check fails
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const SettingInfo setting_info[SETTING_COUNT] = {
#define SETTING(name, kind, fallback, least, most, help) {"LATHE_" #name, #kind, fallback, least, most, help},
#include "base/settings.def"
#undef SETTING
};

static const char *overrides[SETTING_COUNT];

static bool int_parse(const char *text, long *out) {
    char *end;
    errno = 0;
    *out = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool is_int(const SettingInfo *info) {
    return strcmp(info->kind, "INT") == 0;
}

const char *setting_text(SettingId id) {
    CHECK((unsigned)id < SETTING_COUNT);
    const SettingInfo *info = &setting_info[id];
    const char *value = overrides[id] ? overrides[id] : getenv(info->name);
    return value && *value ? value : info->fallback;
}

long setting_int(SettingId id) {
    long value;
    CHECK((unsigned)id < SETTING_COUNT && is_int(&setting_info[id]));
    if (int_parse(setting_text(id), &value)) return value;
    CHECK(int_parse(setting_info[id].fallback, &value));
    return value;
}

void setting_override(SettingId id, const char *value) {
    CHECK((unsigned)id < SETTING_COUNT);
    overrides[id] = value;
}

bool settings_check(Error *err) {
    for (int id = 0; id < SETTING_COUNT; id++) {
        const SettingInfo *info = &setting_info[id];
        long value;
        if (!is_int(info)) continue;
        if (!int_parse(setting_text((SettingId)id), &value) || value < info->least || value > info->most)
            return fail(err, LATHE_BAD_REQUEST, "%s=\"%s\" is not a whole number from %ld to %ld (default %s): %s",
                        info->name, setting_text((SettingId)id), info->least, info->most, info->fallback, info->help);
    }
    return true;
}
