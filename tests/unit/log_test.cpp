#include "braid/log.hpp"

#include <filesystem>
#include <fstream>

#include "support.hpp"

namespace braid {
namespace {

using test::give;
using test::telling_backend;

struct captured {
  std::vector<std::string> lines;
  std::shared_ptr<logger> log =
      std::make_shared<logger>([this](log_area area, log_level, std::string_view text) {
        lines.push_back(std::string(to_string(area)) + ": " + std::string(text));
      });
};

void exchange(captured& to) {
  auto options = test::options();
  options.logger = to.log;
  multi_stream<telling_backend> engine{telling_backend{}, options};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read(x)});
}

TEST(log, a_disabled_area_says_nothing) {
  captured to;
  exchange(to);
  EXPECT_TRUE(to.lines.empty());
}

TEST(log, basic_says_who_waits_on_whom) {
  captured to;
  to.log->set_level(log_area::streaming, log_level::basic);
  exchange(to);
  EXPECT_EQ(to.lines, (std::vector<std::string>{"streaming: stream 2 waits on stream 1"}));
}

TEST(log, full_says_why) {
  captured to;
  to.log->set_level(log_area::streaming, log_level::full);
  exchange(to);
  EXPECT_EQ(to.lines,
            (std::vector<std::string>{"streaming: stream 2 waits on stream 1: op 1 needs op 1 there, "
                                      "reaching op 1 (RAW on 'x')"}));
}

TEST(log, tells_work_that_was_submitted_elsewhere_from_streams) {
  captured to;
  auto options = test::options();
  options.logger = to.log;
  multi_stream<telling_backend> engine{telling_backend{}, options};
  const resource x = resource::token("x");
  to.log->set_level(log_area::streaming, log_level::basic);
  engine.note(write(x), {});
  give(engine, {1}, {read(x)});
  engine.wait_for(stream_id{2}, {});
  to.log->set_level(log_area::streaming, log_level::full);
  engine.note(write(x), {});
  give(engine, {1}, {read(x)});
  engine.wait_for(stream_id{2}, {});
  EXPECT_EQ(to.lines, (std::vector<std::string>{
                          "streaming: stream 1 waits on work submitted elsewhere",
                          "streaming: stream 2 waits on work submitted elsewhere",
                          "streaming: stream 1 waits on work submitted elsewhere: op 2 needs it (RAW on 'x')",
                          "streaming: stream 2 waits on work submitted elsewhere: op 2 needs it (user)"}));
}

TEST(log, goes_to_a_file) {
  const auto path =
      std::filesystem::temp_directory_path() / ("braid_log_" + std::to_string(getpid()) + ".txt");
  {
    logger log(path.string());
    log.set_level(log_area::errors, log_level::basic);
    log.write(log_area::errors, log_level::basic, "something broke");
    log.write(log_area::memory, log_level::basic, "not enabled");
  }
  std::ifstream in(path);
  std::string all((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(all.find("[braid] errors: something broke"), std::string::npos) << all;
  EXPECT_EQ(all.find("not enabled"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(log, a_file_that_cannot_be_written_is_a_clear_error) {
  try {
    logger log("/proc/no/such/place.txt");
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_EQ(e.kind(), misuse::bad_settings);
    EXPECT_NE(std::string(e.what()).find("/proc/no/such/place.txt"), std::string::npos);
  }
}

TEST(log, a_callback_that_throws_does_not_fail_the_program) {
  logger log([](log_area, log_level, std::string_view) { throw std::runtime_error("full disk"); });
  log.set_level(log_area::errors, log_level::basic);
  log.write(log_area::errors, log_level::basic, "x");
}

}  // namespace
}  // namespace braid
