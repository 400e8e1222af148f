#pragma once

#include <gtest/gtest-spi.h>

#include <algorithm>
#include <barrier>
#include <mutex>

#include "braid/task.hpp"
#include "fixture.hpp"

namespace braid::conformance {

/// The base of all suites: a backend, a runtime over it, and the checks that end each test.
template <class F>
class suite : public testing::Test {
 public:
  using fixture = F;
  using runtime = typename F::runtime;

  explicit suite(unsigned setting) : world(setting) {
    const std::string_view test = testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const known_exception& each : F::exceptions()) {
      if (each.test == test) reason_ = each.reason;
    }
    if (!reason_.empty()) {
      using reporter = testing::ScopedFakeTestPartResultReporter;
      intercepted_ = std::make_unique<reporter>(reporter::INTERCEPT_ALL_THREADS, &results_);
    }
  }

 protected:
  void SetUp() override {
    if constexpr (requires { world.unavailable(); }) {
      if (const std::string why = world.unavailable(); !why.empty()) GTEST_SKIP() << why;
    }
  }
  void TearDown() override {
    rt_.reset();
    world.finish();
    if (reason_.empty()) return;
    intercepted_.reset();
    bool failed = false;
    for (int i = 0; i < results_.size(); ++i) failed = failed || results_.GetTestPartResult(i).failed();
    if (!failed) {
      ADD_FAILURE() << "passes, but is listed as an exception: " << reason_;
    } else {
      GTEST_SKIP() << reason_;
    }
  }

  /// The runtime of the test. Made with these options at the first call.
  runtime& start(runtime_options o = {}) {
    if (!rt_) rt_ = world.make(std::move(o));
    return *rt_;
  }
  /// A further one, over the same device where there is one.
  std::unique_ptr<runtime> another(runtime_options o = {}) { return world.make(std::move(o)); }
  void stop() { rt_.reset(); }

  /// Lets the device go on until the predicate holds. Runs no ops on this thread where the backend has its
  /// own.
  template <class Predicate>
  void until(Predicate&& holds) {
    while (!holds()) world.step();
  }

  F world;

 private:
  std::unique_ptr<runtime> rt_;
  std::string_view reason_;
  testing::TestPartResultArray results_;
  std::unique_ptr<testing::ScopedFakeTestPartResultReporter> intercepted_;
};

/// Registers a test for every instance of every fixture.
template <template <class> class Suite, template <class> class Test, class... Fixtures>
bool add_test(fixtures<Fixtures...>, [[maybe_unused]] const char* suite_name,
              [[maybe_unused]] const char* test, [[maybe_unused]] const char* file,
              [[maybe_unused]] int line) {
  [[maybe_unused]] const auto add = [&]<class F>(const std::vector<instance<F>>& all) {
    for (const instance<F>& each : all) {
      testing::RegisterTest((std::string(suite_name) + "/" + each.name).c_str(), test, nullptr, nullptr, file,
                            line, [setting = each.setting]() -> Suite<F>* { return new Test<F>(setting); });
    }
  };
  (add(Fixtures::instances()), ...);
  return true;
}

/// BACKEND_TEST(suite, backends, name): a test of `suite` on each of the backends; `TypeParam` is the
/// fixture.
#define BACKEND_TEST(suite_name, backends, test)                                                     \
  template <class TypeParam>                                                                         \
  struct suite_name##_##test : suite_name<TypeParam> {                                               \
    using suite_name<TypeParam>::suite_name;                                                         \
    void TestBody() override;                                                                        \
  };                                                                                                 \
  [[maybe_unused]] const bool suite_name##_##test##_is_added =                                       \
      add_test<suite_name, suite_name##_##test>(backends{}, #suite_name, #test, __FILE__, __LINE__); \
  template <class TypeParam>                                                                         \
  void suite_name##_##test<TypeParam>::TestBody()

inline std::vector<int> constant(std::size_t count, int value) {
  return std::vector<int>(count, value);
}

inline std::vector<int> counting(std::size_t count) {
  std::vector<int> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<int>(i);
  return all;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The call throws this misuse, with a text that names `named`.
template <class Call>
void expect_misuse(misuse kind, std::string_view named, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const usage_error& e) {
    EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(kind)) << e.what();
    EXPECT_TRUE(contains(e.what(), named)) << e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "not a usage_error: " << e.what();
  }
}

/// The call throws the error of the op with this label; its text has the label and `text`.
template <class Call>
void expect_failure(std::string_view label, std::string_view text, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const op_error& e) {
    EXPECT_EQ(e.label(), label) << e.what();
    EXPECT_TRUE(contains(e.what(), label)) << e.what();
    EXPECT_TRUE(contains(e.what(), text)) << e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "not an op_error: " << e.what();
  }
}

/// What a runtime logs.
struct captured {
  captured() { log->set_level(log_area::errors, log_level::basic); }
  [[nodiscard]] std::vector<std::string> lines() {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }
  [[nodiscard]] bool has(std::string_view part) { return count(part) != 0; }
  [[nodiscard]] std::size_t count(std::string_view part) {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(lines_.begin(), lines_.end(), [&](const auto& line) { return contains(line, part); }));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;

 public:
  std::shared_ptr<logger> log = std::make_shared<logger>([this](log_area, log_level, std::string_view text) {
    const std::scoped_lock lock(mutex_);
    lines_.emplace_back(text);
  });
};

template <class Work>
void on_threads(unsigned count, Work&& work) {
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      work(t);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace braid::conformance
