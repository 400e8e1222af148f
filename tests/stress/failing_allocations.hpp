#pragma once

/// Of a program that links failing_allocations.cpp, which replaces operator new: the calling thread's
/// allocation that throws std::bad_alloc, counted down; 0: none.
extern thread_local long failing_allocation;
/// So many more fail after it.
extern thread_local long failing_after;
