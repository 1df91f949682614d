// metal_api: see metal_api.h.
#include "runtime/metal_api.h"

#include <string.h>

#include "base/os.h"

typedef struct Symbol { const char *library, *name; size_t field; } Symbol;

static const char RUNTIME[] = "/usr/lib/libobjc.A.dylib", FRAMEWORK[] = "/System/Library/Frameworks/Metal.framework/Metal";
static const Symbol symbols[] = {
    {RUNTIME, "objc_getClass", offsetof(MetalApi, class_named)},
    {RUNTIME, "sel_registerName", offsetof(MetalApi, selector)},
    {RUNTIME, "objc_msgSend", offsetof(MetalApi, send)},
    {RUNTIME, "objc_autoreleasePoolPush", offsetof(MetalApi, pool_push)},
    {RUNTIME, "objc_autoreleasePoolPop", offsetof(MetalApi, pool_pop)},
    {FRAMEWORK, "MTLCreateSystemDefaultDevice", offsetof(MetalApi, default_device)},
};

bool metal_api_open(MetalApi *api, Error *err) {
    Error why = {0};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *library = library_open(symbols[i].library, &why), *found;   // they stay loaded
        if (!library) return fail(err, LATHE_DEVICE, "no Metal: %s; Metal is a part of macOS, use another device elsewhere", why.text);
        found = library_symbol(library, symbols[i].name);
        if (!found) return fail(err, LATHE_DEVICE, "no Metal: %s lacks %s; update macOS", symbols[i].library, symbols[i].name);
        memcpy((char *)api + symbols[i].field, &found, sizeof found);
    }
    return true;
}

ObjcId metal_string(const MetalApi *api, const char *text) {
    return SEND(api, ObjcId, api->class_named("NSString"), "stringWithUTF8String:", (ObjcId, ObjcSelector, const char *), text);
}

const char *metal_text(const MetalApi *api, ObjcId string) {
    const char *text = string ? SEND(api, const char *, string, "UTF8String", (ObjcId, ObjcSelector)) : NULL;
    return text ? text : "";
}

const char *metal_reason(const MetalApi *api, ObjcId error) {
    return error ? metal_text(api, SEND(api, ObjcId, error, "localizedDescription", (ObjcId, ObjcSelector))) : "no reason was given";
}

void metal_release(const MetalApi *api, ObjcId object) {
    if (object) SEND(api, void, object, "release", (ObjcId, ObjcSelector));
}
