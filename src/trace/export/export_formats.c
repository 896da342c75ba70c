/* The table of formats. */
#include "trace/export/export.h"

#define X(number, name_, kind_, ending, other_ending, properties_, writer)                                             \
    [MT_EXPORT_##number] = {.name = name_,                                                                             \
                            .endings = {ending, other_ending},                                                         \
                            .kind = MT_EXPORT_##kind_,                                                                 \
                            .properties = properties_,                                                                 \
                            .write = mt_export_##writer},
const struct mt_export_format_row mt_export_formats[MT_EXPORT_FORMAT_COUNT] = {MT_EXPORT_FORMATS(X)};
#undef X

mt_status mt_export(const struct mt_export_request *request, struct mt_output_file *file)
{
    return mt_export_formats[request->format].write(request, file);
}
