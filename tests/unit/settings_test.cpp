#include "braid/settings.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "braid/error.hpp"

namespace braid {
namespace {

namespace fs = std::filesystem;

class settings_test : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("braid_settings_" + std::to_string(getpid()));
    fs::create_directories(root_ / "a" / "b");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& text) { std::ofstream(root_ / "braid.toml") << text; }
  settings load() {
    return settings::load(root_ / "a" / "b", [this](const char* name) -> const char* {
      const auto at = env_.find(name);
      return at != env_.end() ? at->second.c_str() : nullptr;
    });
  }
  std::string error() {
    try {
      load();
      return "no error";
    } catch (const usage_error& e) {
      EXPECT_EQ(e.kind(), misuse::bad_settings);
      std::string text = e.what();
      if (const auto at = text.find(root_.string()); at != std::string::npos)
        text.erase(at, root_.string().size() + 1);
      return text;
    }
  }
  fs::path root_;
  std::map<std::string, std::string> env_;
};

TEST_F(settings_test, defaults_say_that_they_are) {
  const settings s = load();
  EXPECT_EQ(s.max_streams.value, 64U);
  EXPECT_EQ(s.max_streams.source, "default");
}

TEST_F(settings_test, a_file_above_the_working_directory_is_found_and_named_with_its_line) {
  write("[streams]\nmax = 12\nmarks = \"eager\"\n\n[log]\nstreaming = \"full\"\n");
  const settings s = load();
  EXPECT_EQ(s.max_streams.value, 12U);
  EXPECT_EQ(s.max_streams.source, (root_ / "braid.toml").string() + ":2");
  EXPECT_EQ(s.marks.value, mark_policy::eager);
  EXPECT_EQ(s.log_streaming.value, log_level::full);
  EXPECT_EQ(s.special_streams.source, "default");
}

TEST_F(settings_test, the_environment_overrides_the_file) {
  write("[streams]\nmax = 12\n");
  env_["BRAID_STREAMS_MAX"] = "5";
  env_["BRAID_STREAMS_DETERMINISTIC"] = "true";
  env_["BRAID_LIMITS_OPS_IN_FLIGHT"] = "77";
  const settings s = load();
  EXPECT_EQ(s.max_streams.value, 5U);
  EXPECT_EQ(s.max_streams.source, "BRAID_STREAMS_MAX");
  EXPECT_TRUE(s.deterministic.value);
  EXPECT_EQ(s.ops_in_flight.value, 77U);
}

TEST_F(settings_test, a_file_that_does_not_parse_is_an_error_with_line_and_column) {
  write("[streams]\nmax = = 3\n");
  EXPECT_EQ(error().substr(0, 15), "braid.toml:2:7:") << error();
}

TEST_F(settings_test, an_unknown_key_is_an_error_with_its_place_and_the_nearest_key) {
  write("[streams]\nmx = 3\n");
  EXPECT_EQ(error(), "braid.toml:2:1: unknown key 'streams.mx'; did you mean 'streams.max'?");
  write("colour = 1\n");
  EXPECT_EQ(error().substr(0, 38), "braid.toml:1:1: unknown key 'colour'; ") << error();
}

TEST_F(settings_test, a_value_of_the_wrong_kind_is_an_error_with_its_place) {
  write("[streams]\nmax = \"many\"\n");
  EXPECT_EQ(error(), "braid.toml:2:7: streams.max: is not a whole number from 0 to 4294967295");
  write("[streams]\nmax = -1\n");
  EXPECT_EQ(error(), "braid.toml:2:7: streams.max: is not a whole number from 0 to 4294967295");
  write("[log]\nmemory = \"loud\"\n");
  EXPECT_EQ(error(), "braid.toml:2:10: log.memory: 'loud' is not one of disabled, basic, full");
  write("[streams]\ndeterministic = 1\n");
  EXPECT_EQ(error(), "braid.toml:2:17: streams.deterministic: is not true or false");
  write("[log]\nto = 3\n");
  EXPECT_EQ(error(), "braid.toml:2:6: log.to: is not a text in quotes");
}

TEST_F(settings_test, a_wrong_variable_is_an_error_with_its_name) {
  env_["BRAID_STREAMS_MAX"] = "12x";
  EXPECT_EQ(error(), "BRAID_STREAMS_MAX: '12x' is not a whole number from 0 to 4294967295");
  env_ = {{"BRAID_STREAMS_MARKS", "sometimes"}};
  EXPECT_EQ(error(), "BRAID_STREAMS_MARKS: 'sometimes' is not one of learned, eager, lazy");
}

TEST_F(settings_test, rows_list_every_key_once_with_its_variable) {
  const auto rows = load().rows();
  EXPECT_EQ(rows.size(), 21U);
  EXPECT_EQ(rows[0].key, "streams.max");
  EXPECT_EQ(rows[0].variable, "BRAID_STREAMS_MAX");
  EXPECT_EQ(rows[0].value, "64");
}

}  // namespace
}  // namespace braid
