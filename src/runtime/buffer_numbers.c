// buffer_numbers: see buffer_numbers.h.
#include "runtime/buffer_numbers.h"

#include <stdlib.h>

#include "base/error.h"

enum { FIRST_SLOTS = 64 };
_Static_assert(sizeof(void *) == 8, "addresses hold a number and an offset");

static uint32_t slot_of(const BufferNumbers *numbers, const void *at) {
    uint32_t slot = (uint32_t)((uintptr_t)at >> BUFFER_OFFSET_BITS) - 1;
    CHECK(slot < numbers->n && numbers->slots[slot].object);
    return slot;
}

void *buffer_numbers_add(BufferNumbers *numbers, void *object) {
    uint32_t slot = numbers->first_free - 1;
    if (numbers->first_free) numbers->first_free = numbers->slots[slot].next_free;
    else {
        slot = numbers->n;
        if (slot == numbers->cap) {
            uint32_t cap = numbers->cap ? 2 * numbers->cap : FIRST_SLOTS;
            BufferSlot *grown = slot >> (63 - BUFFER_OFFSET_BITS) ? NULL : realloc(numbers->slots, cap * sizeof *grown);
            if (!grown) return NULL;
            numbers->slots = grown, numbers->cap = cap;
        }
        numbers->n++;
    }
    numbers->slots[slot] = (BufferSlot){object, 0};
    return (void *)((uintptr_t)(slot + 1) << BUFFER_OFFSET_BITS);
}

void *buffer_numbers_object(const BufferNumbers *numbers, const void *at) { return numbers->slots[slot_of(numbers, at)].object; }

size_t buffer_numbers_offset(const void *at) { return (uintptr_t)at & (((uintptr_t)1 << BUFFER_OFFSET_BITS) - 1); }

void *buffer_numbers_remove(BufferNumbers *numbers, const void *at) {
    uint32_t slot = slot_of(numbers, at);
    void *object = numbers->slots[slot].object;
    numbers->slots[slot] = (BufferSlot){NULL, numbers->first_free};
    numbers->first_free = slot + 1;
    return object;
}

void buffer_numbers_free(BufferNumbers *numbers) { free(numbers->slots); }
