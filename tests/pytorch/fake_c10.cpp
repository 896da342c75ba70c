/* The parts of PyTorch that the library for PyTorch needs: the out-of-memory error under PyTorch's symbol names, with
 * private members. Catches the error as PyTorch does. */
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

#define EXPORTED __attribute__((visibility("default")))

namespace c10
{

struct SourceLocation {
    const char *function;
    const char *file;
    uint32_t line;
};

class EXPORTED Error : public std::exception
{
    std::string message;
    std::string place;
    [[maybe_unused]] const void *caller = nullptr;

  public:
    Error(SourceLocation where, std::string text);
    const char *what() const noexcept override;
};

class EXPORTED OutOfMemoryError : public Error
{
    using Error::Error;
};

struct Device {
    int8_t type, index;
};

static uint64_t reports;

/* PyTorch's report to its profiler. Counts how often it is reached. */
EXPORTED void reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, Device)
{
    reports++;
}

Error::Error(SourceLocation where, std::string text)
    : message(std::move(text)), place(std::string(where.file) + ":" + where.function)
{
}

const char *Error::what() const noexcept
{
    return message.c_str();
}

} // namespace c10

static std::string said;
static int caught_errors;

extern "C" {

EXPORTED uint64_t fake_c10_reports()
{
    return c10::reports;
}

/* Takes a block. Returns "", or the error as PyTorch would see it. */
EXPORTED const char *fake_c10_take(void *(*take)(ssize_t, int, void *), ssize_t size, int device, void *stream,
                                   void **out)
{
    said.clear();
    *out = nullptr;
    try {
        *out = take(size, device, stream);
    } catch (const c10::OutOfMemoryError &error) {
        caught_errors++;
        said = std::string("OutOfMemoryError ") + error.what();
    } catch (const std::exception &error) {
        said = std::string("RuntimeError ") + error.what();
    }
    return said.c_str();
}

/* Throws the error as PyTorch does. The compiler emits its type for this. */
EXPORTED void fake_c10_throw()
{
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "thrown by PyTorch itself");
}
}
