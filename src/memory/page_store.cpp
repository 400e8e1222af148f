#include "page_store.hpp"

#include <new>

namespace braid::detail {

page::page(block* from, unsigned of_class)
    : memory(from),
      blocks(static_cast<block*>(
          ::operator new(sizeof(block) * blocks_of_page(of_class), std::align_val_t{alignof(block)}))),
      count(blocks_of_page(of_class)),
      size_class(static_cast<std::uint8_t>(of_class)) {}

page::~page() {
  std::destroy_n(blocks, carved);
  ::operator delete(blocks, std::align_val_t{alignof(block)});
}

void page_store::put(block* b) noexcept {
  b->stands = b->past.empty() ? block::place::clean : block::place::mixed;
  if (b->stands == block::place::clean) ++b->in->clean;
  list_of(*b).push_back(b);
}

block* page_store::take(block* b) noexcept {
  if (b->stands == block::place::clean) --b->in->clean;
  list_of(*b).erase(b);
  b->stands = block::place::out;
  return b;
}

block* page_store::carve(unsigned size_class) noexcept {
  page* from = open_[size_class];
  if (from == nullptr) return nullptr;
  const std::uint64_t size = class_size(size_class);
  block* b = new (from->blocks + from->carved) block(from->memory->data + size * from->carved, size);
  b->is = block::kind::small;
  b->size_class = from->size_class;
  b->in = from;
  if (++from->carved == from->count) open_[size_class] = nullptr;
  return b;
}

void page_store::add(block* memory, unsigned size_class, heap& from) {
  try {
    pages_.push_back(std::make_unique<page>(memory, size_class));
  } catch (...) {
    (void)from.put(memory);
    throw;
  }
  open_[size_class] = pages_.back().get();
  if (memory->past.empty()) return;
  try {
    while (open_[size_class] != nullptr) {
      history past = memory->past.copy();
      block* b = carve(size_class);
      b->past = std::move(past);
      share_arena(*b, *memory);
      b->used = true;
      put(b);
    }
  } catch (...) {
    open_[size_class] = nullptr;  // the rest of the page may not be carved without its history
    throw;
  }
}

void page_store::sweep(point_question is_complete) noexcept {
  for (block_list& list : used_) {
    for (block* b = list.first(); b != nullptr;) {
      block* const next = b->next;
      if (all_points(*b, is_complete)) {
        (void)take(b);
        b->past.clear();
        put(b);
      }
      b = next;
    }
  }
}

void page_store::release(heap& to) noexcept {
  std::erase_if(pages_, [&](const std::unique_ptr<page>& p) {
    if (p->clean != p->carved) return false;
    for (std::uint32_t i = 0; i < p->carved; ++i) clean_[p->size_class].erase(p->blocks + i);
    if (open_[p->size_class] == p.get()) open_[p->size_class] = nullptr;
    p->memory->past.clear();  // its blocks' histories are complete, and they came after
    (void)to.put(p->memory);
    return true;
  });
}

}  // namespace braid::detail
