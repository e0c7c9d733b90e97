/* tests/simulation/heap.h: the memory that a replica allocates.
 *
 * Each replica has a region of its own, which is empty again when the replica starts. So a replica
 * that crashes leaves nothing, and the next incarnation uses the same pages. There are no threads
 * that run at the same time, so this takes a fraction of the time that the C library's functions
 * need.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_HEAP_H
#define CCMD_TESTS_SIMULATION_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/** Forgets all blocks of the heap. */
void heap_start(unsigned heap);
/** Returns NULL if the heap is full. */
void *heap_alloc(unsigned heap, size_t size);
/** Stops the program if the block was freed before. */
void heap_free(void *block);
/** Changes the size of the block if that needs no other block; false: it does. */
bool heap_resize(void *block, size_t size);
/** Is it a block of a heap? Others are the C library's. */
bool heap_has(const void *block);
/** The size that was asked for. */
size_t heap_size(const void *block);

/** How much of the heap was ever used since its start: what all blocks took at the worst time, with
 * what is lost between them. */
size_t heap_most(unsigned heap);

#endif
