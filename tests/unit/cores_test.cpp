#include "braid/detail/cores.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/cpu/cgroup.hpp"

namespace braid::detail {
namespace {

namespace fs = std::filesystem;

/// A made-up /proc and /sys in a folder of its own.
class cgroup_test : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("braid_cgroup_" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& text) {
    const fs::path at = root_ / path;
    fs::create_directories(at.parent_path());
    std::ofstream(at) << text << '\n';
  }
  /// As on a machine that knows version 2 only; this process is in `cgroup`.
  void version_2(const std::string& cgroup) {
    file("proc/self/cgroup", "0::" + cgroup);
    file("proc/self/mountinfo",
         "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
         "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate");
  }
  /// As in a container of version 1, of which the mount shows the part from `top` on.
  void version_1(const std::string& cgroup, const std::string& top) {
    file("proc/self/cgroup", "5:cpuset:" + cgroup + "\n4:memory:" + cgroup + "\n2:cpu,cpuacct:" + cgroup +
                                 "\n1:name=systemd:" + cgroup);
    file("proc/self/mountinfo",
         "31 30 0:27 " + top + " /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" + "32 30 0:28 " + top +
             " /sys/fs/cgroup/cpu,cpuacct rw master:3 - cgroup cgroup rw,cpu,cpuacct\n" + "33 30 0:29 " +
             top + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
  }
  [[nodiscard]] double cpus() const {
    const auto found = cgroup_cpu_quota(root_);
    return found.has_value() ? found->cpus() : 0.0;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    const auto found = cgroup_memory_limit(root_);
    return found.has_value() ? found->bytes : 0;
  }

  fs::path root_;
};

TEST_F(cgroup_test, without_cgroups_nothing_is_limited) {
  EXPECT_FALSE(cgroup_cpu_quota(root_).has_value());
  EXPECT_FALSE(cgroup_memory_limit(root_).has_value());
}

TEST_F(cgroup_test, the_word_max_is_no_limit) {
  version_2("/a");
  file("sys/fs/cgroup/a/cpu.max", "max 100000");
  file("sys/fs/cgroup/a/memory.max", "max");
  EXPECT_FALSE(cgroup_cpu_quota(root_).has_value());
  EXPECT_FALSE(cgroup_memory_limit(root_).has_value());
}

TEST_F(cgroup_test, the_quota_of_the_own_cgroup_counts_and_its_file_is_named) {
  version_2("/a");
  file("sys/fs/cgroup/a/cpu.max", "150000 100000");
  const auto found = cgroup_cpu_quota(root_);
  ASSERT_TRUE(found.has_value());
  EXPECT_DOUBLE_EQ(found->cpus(), 1.5);
  EXPECT_EQ(found->rounded_up(), 2U);
  EXPECT_EQ(found->file, "/sys/fs/cgroup/a/cpu.max");
}

TEST_F(cgroup_test, the_smallest_quota_up_to_the_root_counts) {
  version_2("/a/b/c");
  file("sys/fs/cgroup/a/b/c/cpu.max", "400000 100000");
  file("sys/fs/cgroup/a/b/cpu.max", "max 100000");
  file("sys/fs/cgroup/a/cpu.max", "60000 20000");
  EXPECT_DOUBLE_EQ(cpus(), 3.0);
  file("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_DOUBLE_EQ(cpus(), 2.0);
  file("sys/fs/cgroup/a/b/c/cpu.max", "50000 100000");
  EXPECT_DOUBLE_EQ(cpus(), 0.5);
}

TEST_F(cgroup_test, the_quota_of_another_cgroup_does_not_count) {
  version_2("/a");
  file("sys/fs/cgroup/b/cpu.max", "50000 100000");
  EXPECT_FALSE(cgroup_cpu_quota(root_).has_value());
}

TEST_F(cgroup_test, a_cgroup_namespace_shows_its_limit_at_the_root) {
  version_2("/");
  file("sys/fs/cgroup/cpu.max", "250000 100000");
  file("sys/fs/cgroup/memory.max", "1073741824");
  EXPECT_DOUBLE_EQ(cpus(), 2.5);
  EXPECT_EQ(bytes(), 1073741824U);
}

TEST_F(cgroup_test, a_cgroup_outside_of_the_namespace_leaves_the_root) {
  version_2("/../b");
  file("sys/fs/cgroup/cpu.max", "200000 100000");
  file("sys/fs/b/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(cpus(), 2.0);
}

TEST_F(cgroup_test, a_negative_quota_of_version_1_is_no_limit) {
  version_1("/", "/");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_FALSE(cgroup_cpu_quota(root_).has_value());
  EXPECT_FALSE(cgroup_memory_limit(root_).has_value());
}

TEST_F(cgroup_test, a_container_of_version_1_is_found_behind_its_mount) {
  version_1("/docker/abc/inner", "/docker/abc");
  file("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "300000");
  file("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000");
  file("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "4096");
  EXPECT_DOUBLE_EQ(cpus(), 3.0);
  EXPECT_EQ(bytes(), 4096U);
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000");
  EXPECT_DOUBLE_EQ(cpus(), 2.0);
}

TEST_F(cgroup_test, with_both_versions_the_smaller_limit_counts) {
  file("proc/self/cgroup", "1:cpu:/x\n0::/y");
  file("proc/self/mountinfo",
       "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
       "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  file("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "200000");
  file("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(cpus(), 2.0);
  file("sys/fs/cgroup/unified/y/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(cpus(), 1.0);
}

TEST_F(cgroup_test, what_does_not_parse_limits_nothing) {
  version_2("/a");
  for (const char* text : {"", "many 100000", "100000", "100000 0", "-5 100000", "100000 period"}) {
    file("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_FALSE(cgroup_cpu_quota(root_).has_value()) << text;
  }
  file("proc/self/cgroup", "nonsense\n::\n0:");
  file("proc/self/mountinfo", "short\n\n-");
  EXPECT_FALSE(cgroup_cpu_quota(root_).has_value());
}

TEST(cpu_quota, rounds_up_to_whole_cpus_and_to_at_least_one) {
  const auto rounded = [](std::uint64_t quota, std::uint64_t period) {
    return cpu_quota{quota, period, {}}.rounded_up();
  };
  EXPECT_EQ(rounded(0, 100'000), 1U);
  EXPECT_EQ(rounded(1, 100'000), 1U);
  EXPECT_EQ(rounded(100'000, 100'000), 1U);
  EXPECT_EQ(rounded(100'001, 100'000), 2U);
  EXPECT_EQ(rounded(300'000, 100'000), 3U);
}

TEST_F(cgroup_test, without_a_quota_the_cores_are_the_cpus_that_the_system_lets_the_process_run_on) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(getpid(), sizeof set, &set), 0);
  std::vector<unsigned> expected;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) expected.push_back(cpu);
  }
  const cores found = cores_of_process(root_);
  EXPECT_EQ(found.cpus, expected);
  EXPECT_EQ(found.usable, expected.size());
}

TEST_F(cgroup_test, a_quota_lowers_the_usable_cores_and_says_so) {
  const cores without = cores_of_process(root_);
  version_2("/a");
  file("sys/fs/cgroup/a/cpu.max", "50000 100000");
  const cores found = cores_of_process(root_);
  EXPECT_EQ(found.usable, 1U);
  EXPECT_EQ(found.cpus, without.cpus);
  if (without.usable == 1) GTEST_SKIP() << "one CPU: a quota takes nothing away here";
  EXPECT_EQ(found.limited_by,
            "/sys/fs/cgroup/a/cpu.max allows 0.5 of " + std::to_string(without.usable) + " CPUs");
}

TEST_F(cgroup_test, a_quota_above_the_cpus_changes_nothing) {
  const cores without = cores_of_process(root_);
  version_2("/a");
  file("sys/fs/cgroup/a/cpu.max", "900000000 100000");
  const cores found = cores_of_process(root_);
  EXPECT_EQ(found.usable, without.usable);
  EXPECT_EQ(found.limited_by, without.limited_by);
}

TEST(cores, a_pinned_thread_runs_on_that_cpu_only) {
  const cores all = cores_of_process();
  ASSERT_FALSE(all.cpus.empty());
  std::thread([&] {
    EXPECT_TRUE(pin_this_thread(all.cpus.back()));
    EXPECT_EQ(sched_getcpu(), static_cast<int>(all.cpus.back()));
  }).join();
}

TEST(cores, cpus_are_taken_in_turn_after_the_one_that_is_in_use) {
  const std::vector<unsigned> some{2, 3, 7};
  for (unsigned i = 0; i < 7; ++i) {
    EXPECT_EQ(cpu_after(some, 2, i), some[i % 3]);
    EXPECT_EQ(cpu_after(some, 7, i), some[(i + 2) % 3]);
  }
  // The one in use may be another.
  EXPECT_EQ(cpu_after(some, 0, 1), 2U);
  EXPECT_EQ(cpu_after(some, 5, 1), 7U);
  EXPECT_EQ(cpu_after(some, 9, 1), 2U);
  EXPECT_EQ(cpu_after(std::vector<unsigned>{4}, 4, 3), 4U);
}

TEST(cores, a_thread_that_begins_on_a_cpu_is_free_to_leave) {
  std::thread([] {
    const std::vector<unsigned> all = cpus_of_this_thread();
    for (const unsigned cpu : all) {
      EXPECT_TRUE(begin_on(cpu));
      EXPECT_EQ(cpus_of_this_thread(), all);
    }
    EXPECT_FALSE(begin_on(60'000));
    // Nor to one that it may not run on.
    ASSERT_TRUE(pin_this_thread(all.front()));
    if (all.size() > 1) {
      EXPECT_FALSE(begin_on(all.back()));
    }
    EXPECT_EQ(cpus_of_this_thread(), std::vector<unsigned>{all.front()});
  }).join();
}

TEST(cores, a_cpu_that_is_not_there_cannot_be_pinned_to) {
  std::thread([] {
    EXPECT_FALSE(pin_this_thread(60'000));
    EXPECT_FALSE(pin_this_thread(~0U));
  }).join();
}

}  // namespace
}  // namespace braid::detail
