// How data gets into buffers, between them and back to the host.

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <thread>

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct data : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(data, all_fixtures, read_gives_what_the_buffer_holds_after_all_that_was_submitted_so_far) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(100, "x");
  TypeParam::fill(rt, x, 1, stream_id{1});
  auto first = rt.read(x);
  TypeParam::increment(rt, x, stream_id{2});
  auto second = rt.read(x);
  TypeParam::fill(rt, x, 9, stream_id{3});
  EXPECT_EQ(first.get(), constant(100, 1));
  EXPECT_EQ(second.get(), constant(100, 2));
  EXPECT_EQ(rt.read(x).get(), constant(100, 9));
}

BACKEND_TEST(data, all_fixtures, read_of_a_slice_gives_its_elements) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10, "x");
  rt.write(x, counting(10));
  EXPECT_EQ(rt.read(x.slice(3, 4)).get(), (std::vector<int>{3, 4, 5, 6}));
  EXPECT_EQ(rt.read(x.slice(10, 0)).get(), std::vector<int>{});
  EXPECT_EQ(rt.read(x.slice(0, 10)).get(), counting(10));
}

BACKEND_TEST(data, all_fixtures, read_goes_into_memory_of_the_program) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10, "x");
  rt.write(x, counting(10));
  std::vector<int> all(10, -1);
  std::array<int, 2> some{};
  auto first = rt.read(x, std::span<int>(all));
  auto second = rt.read(x.slice(8, 2), std::span<int>(some));
  first.get();
  second.wait();
  EXPECT_TRUE(second.is_ready());
  EXPECT_EQ(all, counting(10));
  EXPECT_EQ(some, (std::array<int, 2>{8, 9}));
}

BACKEND_TEST(data, all_fixtures, write_copies_its_source_before_it_returns) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(1000, "x");
  TypeParam::fill(rt, x, 0);
  gate held = this->world.hold(rt, read_write(x));
  {
    std::vector<int> source = counting(1000);
    rt.write(x, source);
    std::fill(source.begin(), source.end(), -1);
  }
  held.open();
  EXPECT_EQ(rt.read(x).get(), counting(1000));
}

BACKEND_TEST(data, all_fixtures, writes_to_slices_leave_the_rest) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  rt.write(x.slice(2, 3), constant(3, 7));
  rt.write(x.slice(4, 0), {});
  EXPECT_EQ(rt.read(x).get(), (std::vector<int>{0, 0, 7, 7, 7, 0, 0, 0}));
}

BACKEND_TEST(data, all_fixtures, many_writes_in_flight_each_keep_their_own_source) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(64, "x");
  std::vector<buffer<int>> copies;
  TypeParam::fill(rt, x, 0);
  {
    gate held = this->world.hold(rt, read_write(x));
    for (int i = 0; i < 40; ++i) {
      rt.write(x, constant(64, i));
      copies.push_back(rt.template make_buffer<int>(64));
      TypeParam::assign(rt, copies.back(), x);
    }
  }
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(rt.read(copies[static_cast<std::size_t>(i)]).get(), constant(64, i));
  }
  EXPECT_EQ(rt.stats().staging.live, 0U);
}

BACKEND_TEST(data, all_fixtures, write_from_keeps_the_source) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(500, "x");
  rt.write_from(x, counting(500));
  EXPECT_EQ(rt.read(x).get(), counting(500));
  struct shared {
    std::shared_ptr<const std::vector<int>> of;
    operator std::span<const int>() const { return *of; }
  };
  auto source = std::make_shared<const std::vector<int>>(constant(100, 3));
  const std::weak_ptr<const std::vector<int>> still_there = source;
  rt.write_from(x.slice(100, 100), shared{std::move(source)});
  EXPECT_EQ(rt.read(x.slice(100, 100)).get(), constant(100, 3));
  rt.synchronize();
  this->until([&] { return still_there.expired(); });  // soon after the op, on a thread of braid's
}

BACKEND_TEST(data, all_fixtures, fill_sets_every_element) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<double>(33, "x");
  rt.fill(x, 1.5);
  rt.fill(x.slice(0, 3), -2);
  const std::vector<double> got = rt.read(x).get();
  EXPECT_EQ(std::accumulate(got.begin(), got.end(), 0.0), 30 * 1.5 - 6);
}

BACKEND_TEST(data, all_fixtures, elements_may_be_anything_that_can_be_copied_as_bytes) {
  struct particle {
    double position[3];
    char kind;
    bool operator==(const particle&) const = default;
  };
  auto& rt = this->start();
  auto x = rt.template make_buffer<particle>(17, "particles");
  rt.fill(x, particle{{1, 2, 3}, 'e'});
  EXPECT_EQ(rt.read(x).get(), std::vector<particle>(17, particle{{1, 2, 3}, 'e'}));
  auto bytes = rt.template make_buffer<std::byte>(3, "bytes");
  rt.fill(bytes, std::byte{7});
  EXPECT_EQ(rt.read(bytes).get(), std::vector<std::byte>(3, std::byte{7}));
}

template <std::size_t Size, class Runtime>
void expect_filled(Runtime& rt) {
  using value = std::array<std::uint8_t, Size>;
  value v;
  for (std::size_t i = 0; i < Size; ++i) v[i] = static_cast<std::uint8_t>(3 * i + 1);
  auto x = rt.template make_buffer<value>(5, "x");
  rt.fill(x, value{});
  rt.fill(x.slice(1, 3), v);
  EXPECT_EQ(rt.read(x).get(), (std::vector<value>{{}, v, v, v, {}})) << Size << " bytes";
}

BACKEND_TEST(data, all_fixtures, elements_of_every_size_are_filled) {
  auto& rt = this->start();
  expect_filled<1>(rt);
  expect_filled<2>(rt);
  expect_filled<3>(rt);
  expect_filled<4>(rt);
  expect_filled<8>(rt);
  expect_filled<12>(rt);
  expect_filled<16>(rt);
  expect_filled<17>(rt);
  expect_filled<200>(rt);
}

BACKEND_TEST(data, all_fixtures, a_handle_that_is_assigned_to_itself_or_emptied_keeps_count) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  rt.fill(x, 3);
  auto& same = x;
  x = same;
  x = std::move(same);
  auto other = x;
  other = {};
  EXPECT_FALSE(other);
  EXPECT_EQ(rt.read(x).get(), constant(4, 3));
  const std::uint64_t live = rt.stats().memory.live;
  x = {};
  EXPECT_LT(rt.stats().memory.live, live) << "the last handle is gone";
}

BACKEND_TEST(data, all_fixtures, copy_brings_one_buffer_into_another) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(50, "x");
  auto y = rt.template make_buffer<int>(50, "y");
  rt.write(x, counting(50));
  rt.copy(y, x);
  TypeParam::fill(rt, x, 0, stream_id{4});
  EXPECT_EQ(rt.read(y).get(), counting(50));
}

BACKEND_TEST(data, all_fixtures, copy_of_slices_also_within_one_buffer) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10, "x");
  rt.write(x, counting(10));
  rt.copy(x.slice(0, 3), x.slice(7, 3));
  EXPECT_EQ(rt.read(x).get(), (std::vector<int>{7, 8, 9, 3, 4, 5, 6, 7, 8, 9}));
  auto y = rt.template make_buffer<int>(4, zeroed, "y");
  rt.copy(y.slice(1, 2), x.slice(3, 2));
  EXPECT_EQ(rt.read(y).get(), (std::vector<int>{0, 3, 4, 0}));
}

BACKEND_TEST(data, all_fixtures, a_zeroed_buffer_may_be_read_at_once) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(77, zeroed, "x");
  auto unnamed = rt.template make_buffer<int>(77, zeroed);
  EXPECT_EQ(rt.read(x).get(), constant(77, 0));
  TypeParam::increment(rt, unnamed);
  EXPECT_EQ(rt.read(unnamed).get(), constant(77, 1));
}

BACKEND_TEST(data, all_fixtures, a_buffer_may_be_read_when_all_its_parts_were_written) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(6, "x");
  TypeParam::fill(rt, x.slice(4, 2), 3);
  TypeParam::fill(rt, x.slice(0, 2), 1);
  EXPECT_EQ(rt.read(x.slice(4, 2)).get(), constant(2, 3));
  TypeParam::fill(rt, x.slice(1, 4), 2);
  EXPECT_EQ(rt.read(x).get(), (std::vector<int>{1, 2, 2, 2, 2, 3}));
}

BACKEND_TEST(data, all_fixtures, buffers_of_size_zero_do_nothing_well) {
  auto& rt = this->start();
  auto none = rt.template make_buffer<int>(0, "none");
  auto also_none = rt.template make_buffer<int>(0, zeroed, "also none");
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(rt.read(none).get(), std::vector<int>{});
  TypeParam::fill(rt, none, 1);
  TypeParam::increment(rt, none);
  TypeParam::add(rt, none, also_none);
  TypeParam::accumulate_into(rt, none, 1);
  rt.write(none, {});
  rt.write(none, std::vector<int>{});
  rt.write_from(none, std::vector<int>{});
  rt.copy(none, also_none);
  rt.fill(none, 3);
  rt.read(none, std::span<int>{}).get();
  rt.wait(none);
  EXPECT_EQ(rt.read(none.slice(0, 0)).get(), std::vector<int>{});
  auto x = rt.template make_buffer<int>(3, "x");
  TypeParam::fill(rt, x.slice(1, 0), 1);
  TypeParam::fill(rt, x.slice(3, 0), 1);
  TypeParam::fill(rt, x, 2);
  EXPECT_EQ(rt.read(x.slice(2, 0)).get(), std::vector<int>{});
  EXPECT_EQ(rt.read(x).get(), constant(3, 2));
}

BACKEND_TEST(data, all_fixtures, handles_say_what_they_are) {
  auto& rt = this->start();
  buffer<double> x = rt.template make_buffer<double>(5, "x");
  EXPECT_TRUE(x);
  EXPECT_EQ(x.size(), 5U);
  EXPECT_EQ(x.size_bytes(), 5 * sizeof(double));
  EXPECT_EQ(x.name(), "x");
  const buffer<double> same = x;
  EXPECT_EQ(same, x);
  EXPECT_FALSE(rt.template make_buffer<double>(5, "x") == x);
  const buffer<double> none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(none.name(), "null");
  EXPECT_EQ(x.slice(1, 3).size(), 3U);
  EXPECT_EQ(x.slice(1, 3).first(), 1U);
}

// ---- Between two runtimes.

BACKEND_TEST(data, all_fixtures, copy_between_two_runtimes_orders_both_sides) {
  auto& rt = this->start();
  auto other = this->another();
  auto there = other->template make_buffer<int>(200, "there");
  auto here = rt.template make_buffer<int>(200, "here");
  for (int i = 0; i < 30; ++i) {
    TypeParam::fill(*other, there, i, stream_id{1});
    rt.copy(here, there);
    TypeParam::fill(*other, there, -1, stream_id{2});  // comes after the copy
    TypeParam::increment(rt, here, stream_id{3});      // likewise
    EXPECT_EQ(rt.read(here).get(), constant(200, i + 1));
    EXPECT_EQ(other->read(there).get(), constant(200, -1));
  }
}

BACKEND_TEST(data, all_fixtures, a_copy_between_runtimes_waits_for_work_that_is_held_on_either_side) {
  this->world.stand_still();
  auto& rt = this->start();
  auto other = this->another();
  auto there = other->template make_buffer<int>(20, "there");
  auto here = rt.template make_buffer<int>(20, "here");
  TypeParam::fill(*other, there, 5);
  TypeParam::fill(rt, here, 1);
  {
    gate source = this->world.hold(*other, read_write(there));
    const submission copy = rt.copy(here, there);
    EXPECT_FALSE(copy.is_over());
    source.open();
    EXPECT_EQ(rt.read(here).get(), constant(20, 5));
  }
  {
    gate sink = this->world.hold(rt, read_write(here));
    TypeParam::fill(*other, there, 6);
    rt.copy(here, there);
    const submission overwrite = TypeParam::fill(*other, there, 7);
    EXPECT_FALSE(overwrite.is_over());
    sink.open();
    EXPECT_EQ(rt.read(here).get(), constant(20, 6));
    EXPECT_EQ(other->read(there).get(), constant(20, 7));
  }
}

BACKEND_TEST(data, all_fixtures, copies_in_opposite_directions_from_two_threads_do_not_wait_for_each_other) {
  auto& rt = this->start();
  auto other = this->another();
  auto here = rt.template make_buffer<int>(16, zeroed, "here");
  auto there = other->template make_buffer<int>(16, zeroed, "there");
  constexpr unsigned each = TypeParam::many(400) / 4;
  on_threads(2, [&](unsigned thread) {
    for (unsigned i = 0; i < each; ++i) {
      if (thread == 0) {
        rt.copy(here, there);
        TypeParam::increment(rt, here);
      } else {
        other->copy(there, here);
        TypeParam::increment(*other, there);
      }
    }
  });
  rt.synchronize();
  other->synchronize();
  const auto a = rt.read(here).get();
  const auto b = other->read(there).get();
  EXPECT_EQ(a, constant(16, a[0]));  // no copy tore a buffer
  EXPECT_EQ(b, constant(16, b[0]));
  EXPECT_GT(a[0] + b[0], 0);
}

BACKEND_TEST(data, all_fixtures, copies_between_slices_of_two_runtimes) {
  auto& rt = this->start();
  auto other = this->another();
  auto there = other->template make_buffer<int>(10, "there");
  auto here = rt.template make_buffer<int>(10, zeroed, "here");
  other->write(there, counting(10));
  rt.copy(here.slice(2, 3), there.slice(5, 3));
  EXPECT_EQ(rt.read(here).get(), (std::vector<int>{0, 0, 5, 6, 7, 0, 0, 0, 0, 0}));
  rt.copy(here.slice(0, 0), there.slice(0, 0));
  rt.synchronize();
}

BACKEND_TEST(data, all_fixtures, the_source_of_a_copy_between_runtimes_may_die_at_once) {
  this->world.stand_still();
  auto& rt = this->start();
  auto other = this->another();
  auto here = rt.template make_buffer<int>(1000, "here");
  TypeParam::fill(rt, here, 0);
  gate held = this->world.hold(rt, read_write(here));
  {
    auto there = other->template make_buffer<int>(1000, "there");
    TypeParam::fill(*other, there, 5, stream_id{1});
    rt.copy(here, there);
  }
  auto next = other->template make_buffer<int>(1000, "next");  // may get the same memory
  TypeParam::fill(*other, next, 6, stream_id{1});
  held.open();
  EXPECT_EQ(rt.read(here).get(), constant(1000, 5));
}

BACKEND_TEST(data, all_fixtures, the_source_runtime_of_a_copy_may_be_destroyed_before_the_copy_ran) {
  this->world.stand_still();
  auto& rt = this->start();
  auto here = rt.template make_buffer<int>(100'000, "here");
  TypeParam::fill(rt, here, 0);
  std::atomic<bool> gone{false};
  std::thread destroyer;
  {
    gate held = this->world.hold(rt, read_write(here));
    auto other = this->another();
    auto there = other->template make_buffer<int>(100'000, "there");
    TypeParam::fill(*other, there, 5);
    rt.copy(here, there);
    // Its end may wait for the copy, or see to it that the copy does without it.
    destroyer = std::thread([&gone, dying = std::move(other)]() mutable {
      dying.reset();
      gone = true;
    });
    detail::backoff pause;
    for (int i = 0; i < 300 && !gone; ++i) pause.pause();
  }
  destroyer.join();
  EXPECT_EQ(rt.read(here).get(), constant(100'000, 5));
}

// ---- Memory of the program.

BACKEND_TEST(data, all_fixtures, adopted_memory_keeps_its_content_and_gets_what_ops_write) {
  auto& rt = this->start();
  auto mine = TypeParam::memory(counting(64));
  {
    auto x = rt.adopt(std::span<int>(mine), "mine");
    EXPECT_EQ(x.name(), "mine");
    EXPECT_EQ(rt.read(x).get(), counting(64));
    TypeParam::increment(rt, x.slice(0, 32), stream_id{1});
    TypeParam::increment(rt, x, stream_id{2});
    rt.wait(x);
    EXPECT_EQ(mine[0], 2);
    EXPECT_EQ(mine[63], 64);
  }
  rt.synchronize();
}

BACKEND_TEST(data, all_fixtures, memory_may_be_adopted_again_after_its_buffer_is_gone) {
  auto& rt = this->start();
  auto mine = TypeParam::memory(constant(16, 1));
  for (int i = 0; i < 5; ++i) {
    auto x = rt.adopt(std::span<int>(mine), "mine");
    TypeParam::increment(rt, x);
    rt.wait(x);
  }
  EXPECT_EQ(mine, constant(16, 6));
  EXPECT_EQ(rt.stats().memory.live_blocks, 0U);
}

BACKEND_TEST(data, all_fixtures, memory_adopted_again_while_work_on_it_is_in_flight_keeps_its_order) {
  this->world.stand_still();
  auto& rt = this->start();
  auto mine = TypeParam::memory(constant(16, 1));
  {
    auto x = rt.adopt(std::span<int>(mine), "mine");
    gate held = this->world.hold(rt, read_write(x));
    TypeParam::fill(rt, x, 5, stream_id{1});
    x = {};
    // Adopting may wait for that work, or order what follows behind it.
    std::thread again([&] {
      auto y = rt.adopt(std::span<int>(mine), "again");
      TypeParam::fill(rt, y, 6, stream_id{2});
      if (!TypeParam::runs_by_itself) rt.wait(stream_id{2});
    });
    if (TypeParam::runs_by_itself) {
      detail::backoff pause;
      for (int i = 0; i < 300; ++i) pause.pause();
    }
    held.open();
    again.join();
    rt.synchronize();
  }
  EXPECT_EQ(mine, constant(16, 6));
}

// An owner that tells when it goes. The memory itself stays, whatever happens.
struct telling_owner {
  std::shared_ptr<void> take(void* of) {
    return {of, [this](void*) { gone = true; }};
  }
  std::atomic<bool> gone{false};
};

BACKEND_TEST(data, all_fixtures, the_owner_of_adopted_memory_is_kept_until_the_work_is_over) {
  this->world.stand_still();
  telling_owner owner;
  auto mine = TypeParam::memory(constant(16, 1));
  auto& rt = this->start();
  auto y = rt.template make_buffer<int>(16, "y");
  {
    auto x = rt.adopt(std::span<int>(mine), "mine", owner.take(mine.data()));
    gate held = this->world.hold(rt, read_write(x));
    TypeParam::assign(rt, y, x, stream_id{1});
    x = {};
    EXPECT_FALSE(owner.gone);
    held.open();
    EXPECT_EQ(rt.read(y).get(), constant(16, 1));
  }
  rt.synchronize();
  this->until([&] { return owner.gone.load(); });
  this->stop();
}

BACKEND_TEST(data, all_fixtures, an_owner_of_adopted_memory_need_not_point_to_anything) {
  this->world.stand_still();
  telling_owner owner;
  auto mine = TypeParam::memory(constant(16, 1));
  auto& rt = this->start();
  {
    auto x = rt.adopt(std::span<int>(mine), "mine", owner.take(nullptr));
    gate held = this->world.hold(rt, read_write(x));
    x = {};
    EXPECT_FALSE(owner.gone);
  }
  rt.synchronize();
  this->until([&] { return owner.gone.load(); });
  this->stop();
}

BACKEND_TEST(data, all_fixtures, the_owner_of_adopted_memory_is_kept_while_another_runtime_copies_from_it) {
  this->world.stand_still();
  telling_owner owner;
  auto mine = TypeParam::memory(constant(16, 3));
  auto& rt = this->start();
  auto other = this->another();
  auto here = rt.template make_buffer<int>(16, "here");
  TypeParam::fill(rt, here, 0);
  {
    auto x = other->adopt(std::span<int>(mine), "mine", owner.take(mine.data()));
    gate held = this->world.hold(rt, read_write(here));
    rt.copy(here, x);
    x = {};
    // All work of the runtime that adopted the memory is over; the copy is not.
    other->wait(stream_id::special(0));
    if (TypeParam::runs_by_itself) {
      detail::backoff pause;
      for (int i = 0; i < 300 && !owner.gone; ++i) pause.pause();
    }
    EXPECT_FALSE(owner.gone);
    held.open();
    EXPECT_EQ(rt.read(here).get(), constant(16, 3));
  }
  rt.synchronize();
  other->synchronize();
  this->until([&] { return owner.gone.load(); });
  other.reset();
  this->stop();
}

BACKEND_TEST(data, all_fixtures, an_owner_of_unused_memory_goes_with_its_buffer) {
  telling_owner owner;
  auto mine = TypeParam::memory(constant(16, 1));
  auto& rt = this->start();
  auto x = rt.adopt(std::span<int>(mine), "mine", owner.take(mine.data()));
  x = {};
  this->until([&] { return owner.gone.load(); });
  this->stop();
}

// ---- Bodies that run on the host.

template <class F>
struct host_data : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(host_data, host_fixtures, scratch_is_memory_for_one_op) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(100, "x");
  for (int i = 0; i < 50; ++i) {
    rt.submit(stream_id{static_cast<std::uint64_t>(i) % 4}, "reverse", write(x), scratch<int>(100),
              scratch<double>(7), [i](std::span<int> to, std::span<int> some, std::span<double> few) {
                EXPECT_EQ(few.size(), 7U);
                std::fill(few.begin(), few.end(), 1.0);
                for (std::size_t j = 0; j < some.size(); ++j) some[j] = static_cast<int>(j) + i;
                std::copy(some.begin(), some.end(), to.begin());
              });
  }
  const auto got = rt.read(x).get();
  EXPECT_EQ(got[0], 49);
  EXPECT_EQ(got[99], 148);
  rt.submit("none", scratch<int>(0), [](std::span<int> none) { EXPECT_TRUE(none.empty()); });
  rt.synchronize();
  EXPECT_EQ(rt.stats().memory.live, 100 * sizeof(int));
}

BACKEND_TEST(host_data, host_fixtures, bindings_of_a_number_known_at_run_time) {
  auto& rt = this->start();
  for (std::size_t count : {0U, 1U, 3U, 40U}) {
    std::vector<buffer<int>> all;
    auto sum = rt.template make_buffer<int>(4, "sum");
    bindings list;
    list.add(write(sum));
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(rt.template make_buffer<int>(8));
      TypeParam::fill(rt, all.back(), static_cast<int>(i), stream_id{i});
      list.add(read(all.back().slice(4, 4)));
    }
    EXPECT_EQ(list.size(), count + 1);
    rt.submit("sum", list, [](std::span<const view> each) {
      const auto to = each[0].template as<int>();
      std::fill(to.begin(), to.end(), 0);
      for (const view& v : each.subspan(1)) {
        const auto from = v.template as<const int>();
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
      }
    });
    for (const auto& each : all) TypeParam::fill(rt, each, -1);
    const int n = static_cast<int>(count);
    EXPECT_EQ(rt.read(sum).get(), constant(4, n * (n - 1) / 2));
  }
  bindings none;
  rt.submit(stream_id{3}, "none", none, [](std::span<const view> each) { EXPECT_TRUE(each.empty()); });
  rt.synchronize();
}

BACKEND_TEST(host_data, host_fixtures, bindings_keep_their_buffers) {
  auto& rt = this->start();
  bindings list;
  {
    auto x = rt.template make_buffer<int>(8, "x");
    TypeParam::fill(rt, x, 2);
    list.add(read_write(x));
  }
  std::atomic<int> seen{0};
  rt.submit("use", list, [&seen](std::span<const view> each) { seen = each[0].template as<int>()[7]; });
  rt.synchronize();
  EXPECT_EQ(seen, 2);
  list.clear();
  EXPECT_EQ(rt.stats().memory.live, 0U);
}

BACKEND_TEST(host_data, host_fixtures, a_view_of_a_slice_begins_with_the_slice) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10, "x");
  rt.write(x, counting(10));
  rt.submit("look", read(x.slice(4, 2)), [](std::span<const int> part) {
    EXPECT_EQ(part.size(), 2U);
    EXPECT_EQ(part[0], 4);
    EXPECT_EQ(part[1], 5);
  });
  rt.synchronize();
}

BACKEND_TEST(host_data, host_fixtures, memory_is_aligned_to_cache_lines) {
  auto& rt = this->start();
  for (const std::uint64_t size : {1U, 5U, 64U, 1000U, 100'000U}) {
    auto x = rt.template make_buffer<char>(size, "x");
    rt.submit("look", write(x), [](std::span<char> all) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.data()) % 64, 0U);
      std::fill(all.begin(), all.end(), 'x');
    });
  }
  rt.synchronize();
}

BACKEND_TEST(host_data, host_fixtures, a_body_may_own_the_last_handle_of_a_buffer) {
  auto& rt = this->start();
  auto y = rt.template make_buffer<int>(64, zeroed, "y");
  for (int i = 0; i < 100; ++i) {
    auto x = rt.template make_buffer<int>(64, "x");
    TypeParam::fill(rt, x, 1, stream_id{1});
    rt.submit(stream_id{static_cast<std::uint64_t>(i) % 3}, "own", read_write(y), read(x),
              [owned = x](std::span<int> to, std::span<const int> from) { to[0] += from[0]; });
  }
  EXPECT_EQ(rt.read(y.slice(0, 1)).get(), constant(1, 100));
  rt.synchronize();
  this->until([&] { return rt.stats().memory.live_blocks == 1; });
}

}  // namespace
}  // namespace braid::conformance
