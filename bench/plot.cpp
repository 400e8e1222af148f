#include "plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace braid::bench {

namespace {

constexpr double width = 860;
constexpr double height = 480;
constexpr double left = 76;
constexpr double right = 200;  // with the legend
constexpr double top = 44;
constexpr double bottom = 60;

// Told apart by people who see colours differently; lines beyond them are dashed.
constexpr std::array colours{"#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e",
                             "#17becf", "#8c564b", "#7f7f7f", "#bcbd22"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

struct tick {
  double at;
  std::string label;  // empty: a line only
};

/// From values to places.
class axis {
 public:
  axis(bool is_log, double begin, double end) : is_log_(is_log), begin_(begin), end_(end) {}

  void include(double value) {
    if (is_log_ && !(value > 0)) return;
    least_ = is_empty_ ? value : std::min(least_, value);
    most_ = is_empty_ ? value : std::max(most_, value);
    is_empty_ = false;
  }
  void widen() {
    if (is_empty_) least_ = is_log_ ? 1 : 0, most_ = 1;
    if (is_log_) {
      least_ = std::pow(10, std::floor(std::log10(least_) * 3 + 1e-9) / 3);
      most_ = std::pow(10, std::ceil(std::log10(most_) * 3 - 1e-9) / 3);
      if (least_ == most_) most_ *= 10;
    } else {
      least_ = std::min(least_, 0.0);
      if (most_ <= least_) most_ = least_ + 1;
      most_ += (most_ - least_) * 0.05;
    }
  }
  [[nodiscard]] bool shows(double value) const { return !is_log_ || value > 0; }
  [[nodiscard]] double place(double value) const {
    const double part =
        is_log_ ? std::log(value / least_) / std::log(most_ / least_) : (value - least_) / (most_ - least_);
    return begin_ + part * (end_ - begin_);
  }
  [[nodiscard]] std::vector<tick> ticks() const { return is_log_ ? log_ticks() : even_ticks(); }

 private:
  [[nodiscard]] std::vector<tick> log_ticks() const {
    std::vector<tick> out;
    const bool is_short = most_ / least_ < 60;
    for (double decade = std::pow(10, std::floor(std::log10(least_) + 1e-9)); decade <= most_ * 1.001;
         decade *= 10)
      for (int digit = 1; digit < 10; ++digit) {
        const double at = decade * digit;
        if (at < least_ * 0.999 || at > most_ * 1.001) continue;
        const bool is_named = digit == 1 || (is_short && (digit == 2 || digit == 5));
        out.push_back({at, is_named ? fmt::format("{:.4g}", at) : ""});
      }
    return out;
  }
  [[nodiscard]] std::vector<tick> even_ticks() const {
    const double rough = (most_ - least_) / 6;
    const double decade = std::pow(10, std::floor(std::log10(rough)));
    const double step = rough / decade < 2 ? 2 * decade : rough / decade < 5 ? 5 * decade : 10 * decade;
    std::vector<tick> out;
    for (double at = std::ceil(least_ / step) * step; at <= most_ + step * 1e-6; at += step)
      out.push_back({at, fmt::format("{:.4g}", std::abs(at) < step * 1e-6 ? 0 : at)});
    return out;
  }

  bool is_log_;
  double begin_, end_;
  bool is_empty_ = true;
  double least_ = 0;
  double most_ = 1;
};

class drawing {
 public:
  explicit drawing(const line_chart& chart)
      : chart_(chart), x_(chart.x_is_log, left, width - right), y_(chart.y_is_log, height - bottom, top) {
    for (const chart_series& s : chart.series)
      for (const auto& [x, y] : s.points) {
        x_.include(x);
        y_.include(y);
      }
    if (chart.y_mark) y_.include(*chart.y_mark);
    for (std::size_t i = 0; i < chart.x_categories.size(); ++i) x_.include(static_cast<double>(i));
    x_.widen();
    y_.widen();
  }

  void write(std::ostream& to) const {
    to << fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" "
        "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#ffffff\"/>\n",
        width, height, width, height);
    text(to, left, 26, chart_.title, "font-size=\"16\" font-weight=\"bold\"");
    grid_lines(to);
    text(to, (left + width - right) / 2, height - 14, chart_.x_label, "text-anchor=\"middle\"");
    text(to, 0, 0, chart_.y_label,
         fmt::format("text-anchor=\"middle\" transform=\"translate(18 {}) rotate(-90)\"",
                     (top + height - bottom) / 2));
    for (std::size_t i = 0; i < chart_.series.size(); ++i) line(to, i);
    to << "</svg>\n";
  }

 private:
  static void text(std::ostream& to, double x, double y, std::string_view what, const std::string& more) {
    to << fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#222222\" {}>{}</text>\n", x, y, more,
                      escaped(what));
  }
  static void stroke(std::ostream& to, double x1, double y1, double x2, double y2, const std::string& more) {
    to << fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2,
                      more);
  }
  void grid_lines(std::ostream& to) const {
    const std::string thin = "stroke=\"#e4e4e4\"";
    std::vector<tick> across = x_.ticks();
    if (!chart_.x_categories.empty()) {
      across.clear();
      for (std::size_t i = 0; i < chart_.x_categories.size(); ++i)
        across.push_back({static_cast<double>(i), chart_.x_categories[i]});
    }
    for (const tick& t : across) {
      stroke(to, x_.place(t.at), top, x_.place(t.at), height - bottom, thin);
      if (!t.label.empty()) text(to, x_.place(t.at), height - bottom + 18, t.label, "text-anchor=\"middle\"");
    }
    for (const tick& t : y_.ticks()) {
      stroke(to, left, y_.place(t.at), width - right, y_.place(t.at), thin);
      if (!t.label.empty()) text(to, left - 8, y_.place(t.at) + 4, t.label, "text-anchor=\"end\"");
    }
    if (chart_.y_mark)
      stroke(to, left, y_.place(*chart_.y_mark), width - right, y_.place(*chart_.y_mark),
             "stroke=\"#888888\" stroke-dasharray=\"5 4\"");
    stroke(to, left, height - bottom, width - right, height - bottom, "stroke=\"#222222\"");
    stroke(to, left, top, left, height - bottom, "stroke=\"#222222\"");
  }
  void line(std::ostream& to, std::size_t i) const {
    const chart_series& s = chart_.series[i];
    const std::string_view colour = colours[i % colours.size()];
    const std::string_view dash = i < colours.size() ? "" : " stroke-dasharray=\"6 3\"";
    std::string path;
    for (const auto& [x, y] : s.points)
      if (x_.shows(x) && y_.shows(y)) path += fmt::format("{:.1f},{:.1f} ", x_.place(x), y_.place(y));
    const int weight = i == 0 ? 3 : 2;
    to << fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", path,
                      colour, weight, dash);
    for (const auto& [x, y] : s.points)
      if (x_.shows(x) && y_.shows(y))
        to << fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x_.place(x),
                          y_.place(y), colour);
    const double at = top + 12 + 20 * static_cast<double>(i);
    stroke(to, width - right + 16, at, width - right + 40, at,
           fmt::format("stroke=\"{}\" stroke-width=\"{}\"{}", colour, weight, dash));
    text(to, width - right + 46, at + 4, s.name, "");
  }

  const line_chart& chart_;
  axis x_;
  axis y_;
};

}  // namespace

void write_svg(std::ostream& to, const line_chart& chart) {
  drawing(chart).write(to);
}

}  // namespace braid::bench
