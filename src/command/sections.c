/* command/sections.c - which sections of INFO a client asked for. */
#include "command/command.h"

bool info_wants(struct slice section, const char *name)
{
    if (section.n == 0) return true;
    return slice_ieq(section, slice_str(name)) || slice_ieq(section, SLICE("all")) ||
           slice_ieq(section, SLICE("everything")) || slice_ieq(section, SLICE("default"));
}
