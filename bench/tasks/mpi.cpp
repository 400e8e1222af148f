// OpenMPI: as many ranks as threads, in processes of their own (mpi_ranks.cpp) that this one starts with
// mpirun and asks over pipes. The ranks take the time.

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rival.hpp"
#include "tasks/mpi_request.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace braid::bench {
namespace {

/// A program with pipes to its standard input and from its standard output and error.
class child {
 public:
  /// See is_started().
  explicit child(std::vector<std::string> command) {
    int to[2];
    int from[2];
    if (pipe2(to, O_CLOEXEC) != 0) return;
    if (pipe2(from, O_CLOEXEC) != 0) {
      close(to[0]);
      close(to[1]);
      return;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDERR_FILENO);
    std::vector<char*> arguments;
    for (std::string& each : command) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    if (posix_spawnp(&id_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) id_ = 0;
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    in_ = to[1];
    out_.reset(fdopen(from[0], "r"));
  }
  /// Ends its input, and waits for its end.
  ~child() {
    if (in_ >= 0) close(in_);
    out_.reset();
    if (id_ != 0) waitpid(id_, nullptr, 0);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  [[nodiscard]] bool is_started() const noexcept { return id_ != 0; }
  bool write_line(const std::string& line) const {
    const std::string all = line + "\n";
    return ::write(in_, all.data(), all.size()) == static_cast<ssize_t>(all.size());
  }
  /// Without its end; nothing if there are no more.
  [[nodiscard]] std::optional<std::string> read_line() const {
    std::string line;
    for (int c = std::fgetc(out_.get()); c != '\n'; c = std::fgetc(out_.get())) {
      if (c == EOF) return line.empty() ? std::nullopt : std::optional(line);
      line.push_back(static_cast<char>(c));
    }
    return line;
  }

 private:
  struct close_file {
    void operator()(std::FILE* f) const noexcept { std::fclose(f); }
  };

  pid_t id_ = 0;
  int in_ = -1;
  std::unique_ptr<std::FILE, close_file> out_;
};

std::optional<child> ranks;
std::string reason;
std::string library = "OpenMPI";

const char* version() {
  return library.c_str();
}

const char* wake(unsigned threads) {
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "braid_mpi_ranks";
  std::error_code ignored;
  if (!std::filesystem::exists(program, ignored))
    return "not built: it needs libopenmpi-dev, and BRAID_BUILD_RIVALS without a sanitizer";
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): a rank that died is found by reading
  // The ranks pin themselves. The rest is said only where mpirun would refuse to start.
  ranks.emplace(std::vector<std::string>{"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to",
                                         "none", "-n", std::to_string(threads), program.string()});
  if (!ranks->is_started()) return "mpirun cannot be started: it needs openmpi-bin";
  std::optional<std::string> line;
  reason.clear();
  while ((line = ranks->read_line())) {
    if (line->starts_with("Open MPI")) {
      library = *line;
      return nullptr;
    }
    reason += *line + " ";
  }
  ranks.reset();
  reason = "mpirun ended: " + reason;
  return reason.c_str();
}

grid_run run_grid(const grid& g) {
  std::ostringstream request;
  request << mpi_request{g.options(), g.iterations()};
  grid_run out{.ns = 0, .check = grid_check{}};
  if (!ranks->write_line(request.str())) return out;
  const auto line = ranks->read_line();
  mpi_answer answer;
  if (line && (std::istringstream(*line) >> answer)) out = {answer.ns, answer.check};
  return out;
}

void rest() {
  ranks.reset();
}

constexpr rival_entry entry{rival_abi, version, wake, nullptr, run_grid, rest};

}  // namespace

const rival_entry* mpi_entry() {
  return &entry;
}

}  // namespace braid::bench
