#include "machine.hpp"

#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

namespace braid::bench {

nlohmann::json machine() {
  std::string model = "unknown";
  std::string mhz;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.rfind("model name", 0) == 0) model = line.substr(colon + 2);
    if (line.rfind("cpu MHz", 0) == 0) mhz = line.substr(colon + 2);
  }
  return {{"cpu", model},
          {"mhz", mhz},
          {"nproc", std::thread::hardware_concurrency()},
          {"compiler", __VERSION__}};
}

std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace braid::bench
