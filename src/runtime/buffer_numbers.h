// buffer_numbers: addresses for devices whose buffers are objects. In: an object. Out: an address: its upper bits number the
// object, the lower ones are an offset in it. Invariant: parts of buffers are reached by the arithmetic that the engine does
// on any device; no address is NULL, and none a pointer of the host.
// Example: buffer_numbers_add(&n, memory) → 0x30000000000 (object 2); that + 64 → (object 2, 64)
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct BufferSlot { void *object; uint32_t next_free; } BufferSlot;   // next_free: 1 + slot, 0: none
typedef struct BufferNumbers { BufferSlot *slots; uint32_t n, cap, first_free; } BufferNumbers;   // first_free: 1 + slot, 0: none

enum { BUFFER_OFFSET_BITS = 40 };   // a buffer is shorter than this

void *buffer_numbers_add(BufferNumbers *numbers, void *object);            // NULL where there is no room for one more
void *buffer_numbers_object(const BufferNumbers *numbers, const void *at);
size_t buffer_numbers_offset(const void *at);
void *buffer_numbers_remove(BufferNumbers *numbers, const void *at);       // gives the object back
void buffer_numbers_free(BufferNumbers *numbers);
