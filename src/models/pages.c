// pages: see pages.h. A page's content has a serial number, and names the serial number of the content before it, so that
// a chain of pages is a history. Serial numbers are never used again: what points to an overwritten page finds nothing.
// Example: [7 ← 0: "Once upon…"] ← [9 ← 7: "…a time"] ← [12 ← 9: 20 tokens so far]
#include "models/pages.h"

#include <string.h>

#include "base/map.h"
#include "base/os.h"
#include "base/vec.h"

typedef struct Page {
    uint64_t serial, parent;       // of what it holds; parent 0: the beginning of a history
    uint64_t used;                 // the pool's clock when it was last let go
    int refs;                      // slots that see it
    int n;                         // cells that are known
} Page;

struct PagePool {
    Arena *arena;
    Model *model;
    Page *pages;
    int32_t *tokens;               // [pages, KV_PAGE]
    int32_t *table;                // [slots, pages a slot]
    int64_t *held;                 // [slots]: entries of the table in use
    int64_t n_pages, per_slot;
    uint64_t serial, clock;
    uint8_t *copy;                 // of one page
};

PagePool *pages_create(Model *model) {
    Arena *arena = arena_create();
    PagePool *pool = arena_new(arena, sizeof *pool);
    int slots = model_slots(model);
    *pool = (PagePool){.arena = arena, .model = model, .n_pages = model_pages(model),
                       .per_slot = model_pages_per_slot(model)};
    pool->pages = arena_new(arena, (size_t)pool->n_pages * sizeof *pool->pages);
    pool->tokens = arena_new(arena, (size_t)pool->n_pages * KV_PAGE * sizeof *pool->tokens);
    pool->table = arena_new(arena, (size_t)slots * (size_t)pool->per_slot * sizeof *pool->table);
    pool->held = arena_new(arena, (size_t)slots * sizeof *pool->held);
    pool->copy = arena_new(arena, model_page_bytes(model));
    return pool;
}

void pages_destroy(PagePool *pool) {
    if (pool) arena_destroy(pool->arena);
}

int64_t pages_known(const PagePool *pool) {
    int64_t known = 0;
    for (int64_t i = 0; i < pool->n_pages; i++) known += pool->pages[i].n > 0;
    return known;
}

static int32_t *page_tokens(const PagePool *pool, int64_t page) {
    return pool->tokens + page * KV_PAGE;
}

static int64_t *held_of(PagePool *pool, int slot) {
    return &pool->held[slot];
}

static uint64_t last_serial(const PagePool *pool, int slot) {
    int64_t held = pool->held[slot];
    return held ? pool->pages[pool->table[slot * pool->per_slot + held - 1]].serial : 0;
}

static void page_attach(PagePool *pool, int slot, int64_t page) {
    int64_t index = (*held_of(pool, slot))++;
    CHECK(index < pool->per_slot);
    pool->pages[page].refs++;
    pool->table[slot * pool->per_slot + index] = (int32_t)page;
    model_set_page(pool->model, slot, index, (int32_t)page);
}

// A page that nobody sees, empty or longest unused; not `kept` where there is another.
static int64_t page_take(PagePool *pool, int64_t kept) {
    int64_t best = -1;
    for (int64_t i = 0; i < pool->n_pages; i++) {
        const Page *p = &pool->pages[i];
        if (p->refs || i == kept) continue;
        if (p->n == 0) return i;
        if (best < 0 || p->used < pool->pages[best].used) best = i;
    }
    // Slots hold at most as many pages as there are, and the one that asks holds less than its share.
    CHECK(best >= 0 || kept >= 0);
    return best >= 0 ? best : kept;
}

static void page_rename(PagePool *pool, int64_t page, uint64_t parent, int n) {
    Page *p = &pool->pages[page];
    CHECK(p->refs == 0);
    p->serial = ++pool->serial;
    p->parent = parent;
    p->n = n;
}

// The page behind `parent` whose content shares the longest beginning with tokens[0..n), n ≤ KV_PAGE.
static int64_t page_find(const PagePool *pool, uint64_t parent, const int32_t *tokens, int n, int *common) {
    int64_t best = -1;
    *common = 0;
    for (int64_t i = 0; i < pool->n_pages && *common < n; i++) {
        const Page *p = &pool->pages[i];
        const int32_t *have = page_tokens(pool, i);
        int most = p->n < n ? p->n : n, same = 0;
        if (p->parent != parent || p->n == 0) continue;
        while (same < most && have[same] == tokens[same]) same++;
        if (same > *common) *common = same, best = i;
    }
    return best;
}

int64_t pages_begin(PagePool *pool, int slot, const int32_t *tokens, int64_t n) {
    int64_t at = 0;
    int common;
    pages_release(pool, slot);
    for (;;) {
        uint64_t parent = last_serial(pool, slot);
        int wanted = n - 1 - at < KV_PAGE ? (int)(n - 1 - at) : KV_PAGE;
        int64_t found = page_find(pool, parent, tokens + at, wanted, &common);
        if (found < 0) return at;
        at += common;
        if (common == KV_PAGE) {
            page_attach(pool, slot, found);
            continue;
        }
        // The rest of that page goes on differently, or is being written: what is common moves to a page of its own.
        int64_t own = page_take(pool, found);
        if (own != found) {
            model_page_read(pool->model, (int32_t)found, pool->copy);
            model_page_write(pool->model, (int32_t)own, pool->copy);
            memcpy(page_tokens(pool, own), page_tokens(pool, found), (size_t)common * sizeof *tokens);
        }
        page_rename(pool, own, parent, common);
        page_attach(pool, slot, own);
        return at;
    }
}

// ---------------------------------------------------------------- by text

// Where a text, given as tokens, has been read to by tokens of pages: `offset` bytes into tokens[at], by `taken` of the pages'
// tokens. The first `whole` of these end where tokens[asked] begins.
typedef struct TextReader {
    const int32_t *tokens;
    int64_t n, at;
    size_t offset;
    int64_t taken, whole, asked;
    PieceOf *piece;
    const void *context;
} TextReader;

// Reads what the token stands for; false where the text goes on differently.
static bool reader_take(TextReader *r, int32_t token) {
    bool is_special, other_is_special;
    if (r->offset == 0 && r->at < r->n && r->tokens[r->at] == token) {
        r->at++;
        return true;
    }
    Text text = r->piece(r->context, token, &is_special);
    if (is_special || text.len == 0) return false;
    while (text.len) {
        if (r->at >= r->n) return false;
        Text other = r->piece(r->context, r->tokens[r->at], &other_is_special);
        size_t left = other.len - r->offset, take = left < text.len ? left : text.len;
        if (other_is_special || take == 0 || memcmp(other.at + r->offset, text.at, take) != 0) return false;
        text.at += take, text.len -= take;
        r->offset += take;
        if (take == left) r->at++, r->offset = 0;
    }
    return true;
}

// As many of a page's tokens as the text goes on with.
static void page_read(const PagePool *pool, int64_t page, TextReader *r) {
    for (int n = 0; n < pool->pages[page].n && reader_take(r, page_tokens(pool, page)[n]); n++) {
        r->taken++;
        if (r->offset == 0) r->whole = r->taken, r->asked = r->at;
    }
}

static int64_t ids_in_common(const PagePool *pool, const int32_t *tokens, int64_t n) {
    int64_t at = 0;
    uint64_t parent = 0;
    for (int common = KV_PAGE; common == KV_PAGE;) {
        int64_t page = page_find(pool, parent, tokens + at, n - at < KV_PAGE ? (int)(n - at) : KV_PAGE, &common);
        at += common;
        if (page >= 0) parent = pool->pages[page].serial;
    }
    return at;
}

int64_t pages_find_text(const PagePool *pool, const int32_t *tokens, int64_t n, PieceOf *piece, const void *context,
                        int32_t *known, int64_t *asked) {
    TextReader best = {.tokens = tokens, .n = n, .piece = piece, .context = context};
    uint64_t parent = 0;
    for (int64_t taken = KV_PAGE; taken == KV_PAGE && best.taken + KV_PAGE <= pool->per_slot * KV_PAGE;) {
        TextReader from = best;
        int64_t page = -1;
        for (int64_t i = 0; i < pool->n_pages; i++) {
            if (pool->pages[i].parent != parent || pool->pages[i].n == 0) continue;
            TextReader reader = from;
            page_read(pool, i, &reader);
            if (page >= 0 && (reader.at < best.at || (reader.at == best.at && reader.offset <= best.offset))) continue;
            page = i, best = reader;
        }
        if (page < 0) break;
        taken = best.taken - from.taken;
        memcpy(known + from.taken, page_tokens(pool, page), (size_t)taken * sizeof *known);
        parent = pool->pages[page].serial;
    }
    *asked = best.asked > ids_in_common(pool, tokens, n) ? best.asked : 0;
    return *asked ? best.whole : 0;
}

void pages_reserve(PagePool *pool, int slot, int64_t length) {
    while (*held_of(pool, slot) * KV_PAGE < length) {
        int64_t page = page_take(pool, -1);
        page_rename(pool, page, last_serial(pool, slot), 0);
        page_attach(pool, slot, page);
    }
}

void pages_note(PagePool *pool, int slot, const int32_t *tokens, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        int64_t page = pool->table[slot * pool->per_slot + i / KV_PAGE];
        Page *p = &pool->pages[page];
        CHECK(p->refs == 1 && i / KV_PAGE < *held_of(pool, slot));
        page_tokens(pool, page)[i % KV_PAGE] = tokens[i];
        p->n = (int)(i % KV_PAGE) + 1;
    }
}

// Later pages are let go before earlier ones, so that the end of a history is forgotten first.
void pages_release(PagePool *pool, int slot) {
    while (*held_of(pool, slot) > 0) {
        int64_t index = --*held_of(pool, slot);
        Page *p = &pool->pages[pool->table[slot * pool->per_slot + index]];
        p->refs--;
        p->used = ++pool->clock;
    }
}

// ---------------------------------------------------------------- on disk

// The file: a header, then for each page its head, KV_PAGE tokens and its bytes. checksum: of everything behind the header.
typedef struct PagesHeader {
    char magic[8];
    uint64_t key, page_bytes, count, checksum;
} PagesHeader;

typedef struct PageHead {
    uint64_t serial, parent;
    int64_t n;
} PageHead;

static const char PAGES_MAGIC[8] = "LATHEKV2";

static size_t record_bytes(const PagePool *pool) {
    return sizeof(PageHead) + KV_PAGE * sizeof(int32_t) + model_page_bytes(pool->model);
}

// Pages in the order of their last use, the latest first; those in use count as latest.
static int64_t *pages_by_use(const PagePool *pool, Arena *arena, int64_t *count) {
    int64_t *order = arena_new(arena, (size_t)pool->n_pages * sizeof *order), n = 0;
    for (int64_t i = 0; i < pool->n_pages; i++) {
        if (pool->pages[i].n == 0) continue;
        uint64_t used = pool->pages[i].refs ? UINT64_MAX : pool->pages[i].used;
        int64_t at = n++;
        for (; at > 0; at--) {
            const Page *before = &pool->pages[order[at - 1]];
            if ((before->refs ? UINT64_MAX : before->used) >= used) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    *count = n;
    return order;
}

bool pages_save(const PagePool *pool, const char *path, uint64_t key, size_t most_bytes, Error *err) {
    Arena *arena = arena_create();
    size_t record = record_bytes(pool);
    int64_t count, fits = most_bytes < sizeof(PagesHeader) ? 0 : (int64_t)((most_bytes - sizeof(PagesHeader)) / record);
    const int64_t *order = pages_by_use(pool, arena, &count);
    if (count > fits) count = fits;
    size_t nbytes = sizeof(PagesHeader) + (size_t)count * record;
    uint8_t *all = arena_alloc(arena, nbytes), *at = all + sizeof(PagesHeader);
    bool ok = all || fail(err, LATHE_NO_MEMORY, "%s: no memory for %zu bytes of saved prompts", path, nbytes);
    for (int64_t i = 0; ok && i < count; i++) {
        const Page *p = &pool->pages[order[i]];
        PageHead head = {p->serial, p->parent, p->n};
        memcpy(at, &head, sizeof head);
        memcpy(at + sizeof head, page_tokens(pool, order[i]), KV_PAGE * sizeof(int32_t));
        model_page_read(pool->model, (int32_t)order[i], at + sizeof head + KV_PAGE * sizeof(int32_t));
        at += record;
    }
    if (ok) {
        PagesHeader header = {.key = key, .page_bytes = model_page_bytes(pool->model), .count = (uint64_t)count,
                              .checksum = hash_bytes(all + sizeof header, nbytes - sizeof header, key)};
        memcpy(header.magic, PAGES_MAGIC, sizeof header.magic);
        memcpy(all, &header, sizeof header);
        ok = file_write_atomic(path, all, nbytes, err);
    }
    arena_destroy(arena);
    return ok;
}

static bool file_check(const PagePool *pool, const char *path, uint64_t key, const FileMap *map, Error *err) {
    PagesHeader header;
    const char *next = "the prompts of the last run are computed anew";
    if (map->nbytes < sizeof header) return fail(err, LATHE_BAD_FILE, "%s: too short; %s", path, next);
    memcpy(&header, map->data, sizeof header);
    if (memcmp(header.magic, PAGES_MAGIC, sizeof header.magic) != 0)
        return fail(err, LATHE_BAD_FILE, "%s: not a file of saved prompts, or of another version; %s", path, next);
    if (header.key != key || header.page_bytes != model_page_bytes(pool->model))
        return fail(err, LATHE_BAD_FILE, "%s: belongs to another model or another kind of cache; %s", path, next);
    size_t body = map->nbytes - sizeof header, record = record_bytes(pool);
    if (body % record != 0 || header.count != body / record)
        return fail(err, LATHE_BAD_FILE, "%s: was cut short; %s", path, next);
    if (hash_bytes(map->data + sizeof header, body, key) != header.checksum)
        return fail(err, LATHE_BAD_FILE, "%s: its checksum is wrong; %s", path, next);
    return true;
}

// Serial numbers of the file are smaller than any that this run gives out, so they stay what they are.
static bool record_load(PagePool *pool, int64_t page, const uint8_t *at) {
    PageHead head;
    memcpy(&head, at, sizeof head);
    if (head.n < 1 || head.n > KV_PAGE || head.serial == 0) return false;
    memcpy(page_tokens(pool, page), at + sizeof head, KV_PAGE * sizeof(int32_t));
    model_page_write(pool->model, (int32_t)page, at + sizeof head + KV_PAGE * sizeof(int32_t));
    pool->pages[page] = (Page){.serial = head.serial, .parent = head.parent, .n = (int)head.n};
    if (head.serial > pool->serial) pool->serial = head.serial;
    return true;
}

bool pages_load(PagePool *pool, const char *path, uint64_t key, Error *err) {
    FileMap map = {0};
    CHECK(pool->serial == 0);
    TRY(file_map(&map, path, err));
    bool ok = file_check(pool, path, key, &map, err);
    int64_t count = ok ? (int64_t)((map.nbytes - sizeof(PagesHeader)) / record_bytes(pool)) : 0;
    if (count > pool->n_pages) count = pool->n_pages;
    // The latest stand first in the file, and get the highest clock.
    for (int64_t i = count - 1; i >= 0; i--) {
        const uint8_t *at = map.data + sizeof(PagesHeader) + (size_t)i * record_bytes(pool);
        if (record_load(pool, i, at)) pool->pages[i].used = ++pool->clock;
    }
    file_unmap(&map);
    return ok;
}
