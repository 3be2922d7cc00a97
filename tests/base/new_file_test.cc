#include "base/new_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"

namespace lamina {
namespace {

class NewFileTest : public testing::Test {
 protected:
  NewFileTest() : folder_(cat(testing::TempDir(), "lamina-new-file-", getpid())) { std::filesystem::create_directories(folder_); }
  ~NewFileTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> names() const { return *list_folder(folder_); }

  const std::string folder_;
};

std::span<const uint8_t> bytes_of(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

TEST_F(NewFileTest, AppearsCompleteWhateverTheOrderOfItsParts) {
  Result<NewFile> file = NewFile::create(path("x"), 8);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_TRUE(file->write(6, bytes_of("gh")).ok());
  ASSERT_TRUE(file->write(0, bytes_of("abcdef")).ok());
  EXPECT_EQ(names(), std::vector<std::string>{"x.part"});
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(names(), std::vector<std::string>{"x"});
  EXPECT_EQ(*read_file(path("x")), "abcdefgh");
}

TEST_F(NewFileTest, LeavesNothingWithoutCommit) {
  {
    Result<NewFile> file = NewFile::create(path("x"), 3);
    NewFile moved = std::move(*file);
    ASSERT_TRUE(moved.write(0, bytes_of("abc")).ok());
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(NewFileTest, ErrorsNameThePath) {
  EXPECT_EQ(write_file(path("no/x"), "a").error().message, "cannot create " + path("no/x") + ": No such file or directory");
  const Result<NewFile> first = NewFile::create(path("x"), 1);
  EXPECT_EQ(NewFile::create(path("x"), 1).error().message, "cannot create " + path("x") + ": File exists");
}

TEST_F(NewFileTest, SpaceThatIsNotThereIsAnErrorBeforeAnythingIsWritten) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Result<NewFile> file = NewFile::create(path("x"), 8192);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message, "cannot write " + path("x") + ": File too large");
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace lamina
