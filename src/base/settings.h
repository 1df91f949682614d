// settings: the LATHE_* environment variables as rows (settings.def); nothing else reads the environment.
// A malformed INT, or one out of its bounds, is reported once by settings_check, which names the variable.
#pragma once
#include <stddef.h>
#include "base/error.h"

typedef enum SettingId {
#define SETTING(name, kind, fallback, least, most, help) SETTING_##name,
#include "base/settings.def"
#undef SETTING
    SETTING_COUNT
} SettingId;

typedef struct SettingInfo { const char *name, *kind, *fallback; long least, most; const char *help; } SettingInfo;
extern const SettingInfo setting_info[SETTING_COUNT];

long setting_int(SettingId id);
const char *setting_text(SettingId id);
void setting_override(SettingId id, const char *value);       // flags and tests; the text is not copied
bool settings_check(Error *err) MUST_CHECK;
