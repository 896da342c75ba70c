/* The module's end of device/module.h: its errors are kept where its opener keeps them. */
#include "device/module.h"

#include "base/status.h"

static char *(*host_error_text)(void);

__attribute__((visibility("default"))) mt_module_attach_function mt_module_attach;

void mt_module_attach(const struct mt_module_host *host)
{
    host_error_text = host->error_text;
}

char *mt_error_text(void)
{
    return host_error_text();
}
