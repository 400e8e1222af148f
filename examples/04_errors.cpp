// An op fails. What it would have written is poisoned, what reads that is skipped, and whoever asks for the
// data gets the error with the label of the op that failed. An overwrite heals; unrelated work never notices.

#include <algorithm>
#include <braid/cpu.hpp>
#include <future>
#include <iostream>
#include <stdexcept>

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "wrong: " << what << '\n';
  ++failures;
}

void add_one(std::span<int> all) {
  for (int& v : all) ++v;
}

}  // namespace

int main() {
  braid::cpu::runtime rt;
  const auto pressure = rt.make_buffer<int>(4, braid::zeroed, "pressure");
  const auto report = rt.make_buffer<int>(4, "report");
  const auto other = rt.make_buffer<int>(4, braid::zeroed, "other");

  // The failure, the ops behind it, and the error on the host.
  rt.submit("measure", read_write(pressure),
            [](std::span<int>) { throw std::runtime_error("sensor 3 is off"); });
  rt.submit("report", read(pressure), write(report),
            [](std::span<const int> in, std::span<int> out) { std::ranges::copy(in, out.begin()); });
  rt.submit("unrelated", read_write(other), add_one);
  try {
    (void)rt.read(report).get();
    expect(false, "reading the report did not fail");
  } catch (const braid::op_error& e) {
    std::cout << e.what() << '\n';
    expect(e.label() == "measure", "the error does not name the op that failed");
  }
  expect(rt.read(other).get()[0] == 1, "unrelated work did not go on");
  expect(rt.stats().skipped == 2, "'report' and the read of it should have been skipped");

  // Healing: half of the data first, by a slice, then all of it.
  rt.fill(pressure.slice(0, 2), 7);
  expect(rt.read(pressure.slice(0, 2)).get()[1] == 7, "the first half is not healed");
  try {
    rt.wait(pressure);
    expect(false, "the second half should still be poisoned");
  } catch (const braid::op_error& e) {
    std::cout << "the other half: " << e.what() << '\n';
  }
  rt.fill(pressure.slice(2, 2), 8);
  rt.submit("add one", read_write(pressure), add_one);
  expect(rt.read(pressure).get() == std::vector<int>{8, 8, 9, 9}, "the data is not healed");

  // Cancelling: an op that has not begun does not run; its data says so.
  std::promise<void> gate;
  rt.submit("slow", read_write(other),
            [opened = gate.get_future().share()](std::span<int>) { opened.wait(); });
  const braid::submission late = rt.submit("late", read_write(other), add_one);
  expect(late.cancel(), "an op that cannot have begun was not cancelled");
  gate.set_value();
  try {
    late.wait();
    expect(false, "the cancelled op ran");
  } catch (const braid::op_error& e) {
    std::cout << e.what() << '\n';
  }
  rt.fill(other, 0);

  // Misuse is told at once, and changes nothing.
  try {
    rt.submit("too early", read(rt.make_buffer<int>(4, "blank")), [](std::span<const int>) {});
    expect(false, "reading what nothing wrote was accepted");
  } catch (const braid::usage_error& e) {
    std::cout << e.what() << '\n';
  }
  return failures == 0 ? 0 : 1;
}
