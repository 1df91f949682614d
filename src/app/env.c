// env: the command that shows settings, devices, the compiler and what this machine has.
// In: settings.def, the device table. Out: a table, or JSON. Invariant: prints every row, so that no page can drift.
// Example: lathe env | grep LATHE_DEBUG
#include <stdio.h>
#include <string.h>

#include "app/json_output.h"
#include "app/options.h"
#include "app/terminal.h"
#include "base/os.h"
#include "base/settings.h"
#include "lathe.h"
#include "runtime/cpu_target.h"
#include "runtime/device.h"

typedef struct Machine {
    const char *architecture, *features, *compiler, *cache;
    int cpus;
    size_t memory_bytes;
} Machine;

static Machine machine_describe(Arena *arena) {
    return (Machine){
        .architecture = cpu_architecture(),
        .features = cpu_features_text(arena, cpu_features()),
        .compiler = program_find(arena, setting_text(SETTING_CC)),
        .cache = cache_dir(arena),
        .cpus = cpu_count(),
        .memory_bytes = memory_available_bytes(),
    };
}

// What a device would use; where it cannot be opened only why.
typedef struct DeviceUse { const char *target, *hardware, *problem; } DeviceUse;

static DeviceUse device_use(Arena *arena, const Device *device, const char *target_name) {
    DeviceState *state = NULL;
    DeviceUse use = {0};
    Target target = {0};
    Error err = {0};
    if (!device->open(&state, target_name, 1, &err)) {
        use.problem = text_cstr(arena, text_of(err.text));
        return use;
    }
    device->describe_target(state, &target);
    use.target = text_cstr(arena, text_of(target.name));
    if (device->hardware) use.hardware = text_cstr(arena, utf8_clean(arena, text_of(device->hardware(state))));
    device->close(state);
    return use;
}

static void env_print_json(const Options *o, const Machine *m) {
    json_t *settings = json_object(), *list = json_array();
    for (int id = 0; id < SETTING_COUNT; id++)
        json_object_set_new(settings, setting_info[id].name, json_words(text_of(setting_text((SettingId)id))));
    for (int i = 0; devices[i]; i++) {
        DeviceUse use = device_use(o->arena, devices[i], option_text(o, OPTION_target));
        json_array_append_new(list, json_pack("{s:s, s:s?, s:s?, s:s?}", "name", devices[i]->name, "target", use.target,
                                              "hardware", use.hardware, "problem", use.problem));
    }
    json_print(json_pack("{s:s, s:s, s:s, s:i, s:I, s:s?, s:o, s:o, s:o}", "version", LATHE_VERSION, "cpu", m->architecture,
                         "features", m->features, "cpus", m->cpus, "memory_available_bytes", (json_int_t)m->memory_bytes, "compiler", m->compiler,
                         "cache_dir", json_words(text_of(m->cache)), "devices", list, "settings", settings), 6);
}

bool command_env(const Options *o, Error *err) {
    (void)err;
    Machine m = machine_describe(o->arena);
    if (option_given(o, OPTION_json)) {
        env_print_json(o, &m);
        return true;
    }
    printf("lathe %s, %s, %d CPUs, %.1f GiB memory free\n", LATHE_VERSION, m.architecture, m.cpus,
           (double)m.memory_bytes / (1 << 30));
    printf("features   %s\n", m.features);
    printf("compiler   %s\n", m.compiler ? m.compiler : "none found: install gcc, or set LATHE_CC");
    printf("cache      %s\n", m.cache);
    for (int i = 0; devices[i]; i++) {
        DeviceUse use = device_use(o->arena, devices[i], option_text(o, OPTION_target));
        printf("device     %-6s %s%s%s\n", devices[i]->name, use.target ? use.target : use.problem, use.hardware ? " on " : "",
               use.hardware ? use.hardware : "");
    }
    putchar('\n');
    for (int id = 0; id < SETTING_COUNT; id++) {
        const char *value = setting_text((SettingId)id);
        bool changed = strcmp(value, setting_info[id].fallback) != 0;
        printf("%s%s=%s%s\n    %s%s%s\n", changed ? style_begin_bold() : "", setting_info[id].name, value,
               changed ? style_end() : "", style_begin_dim(), setting_info[id].help, style_end());
    }
    return true;
}
