#include "base/log.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

template <class F>
std::string logged(F f) {
  testing::internal::CaptureStderr();
  f();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, DropsLinesBelowTheLevel) {
  EXPECT_EQ(logged([] { log_debug("a"), log_info("b"), log_warning("c"), log_error("d"); }), "info: b\nwarning: c\nerror: d\n");
  set_log_level(*parse_log_level("error"));
  EXPECT_EQ(logged([] { log_warning("c"), log_error("d"); }), "error: d\n");
  set_log_level(*parse_log_level("off"));
  EXPECT_EQ(logged([] { log_error("d"); }), "");
  set_log_level(LogLevel::kInfo);
}

TEST(Log, AMessageStaysOneLine) {
  EXPECT_EQ(logged([] { log_info("a\nerror: forged\r"); }), "info: a\\nerror: forged\\r\n");
}

TEST(Log, LevelsHaveNames) {
  EXPECT_EQ(*parse_log_level("debug"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("loud").error().message, "log level 'loud': use debug, info, warning, error or off");
}

}  // namespace
}  // namespace lamina
