#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace braid::bench {

struct chart_series {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (x, y), in the order in which they are joined
};

/// Lines in a picture. On a logarithmic axis points that are not above 0 are left out.
struct line_chart {
  std::string name;  ///< of the file, without its end
  std::string title;
  std::string x_label;
  std::string y_label;
  bool x_is_log = false;
  bool y_is_log = false;
  std::optional<double> y_mark{};           ///< a dashed line across
  std::vector<std::string> x_categories{};  ///< names of x = 0, 1, 2..., instead of numbers
  std::vector<chart_series> series{};
};

/// One SVG, complete in itself.
void write_svg(std::ostream& to, const line_chart& chart);

}  // namespace braid::bench
