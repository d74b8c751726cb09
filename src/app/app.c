/* app/app.c - the verbs that need the whole service, given to the command line. */
#include "app/app.h"
#include "admin/admin.h"
#include "app/alone.h"
#include "app/certificates.h"
#include "app/service.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/sm.h"
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define KEPT_MOST (32 << 20) /* free memory that stays ours */
/* Passwords are in the memory. No option turns this off: root can still look into the process, and take a core with gcore. */
static void cores_off(void)
{
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0)
        log_event(LOG_WARN, "core_dumps", "error=%s", LOGQ(strerror(errno)));
}

static enum err run_named(struct service *s, struct settings *settings, const char *path, struct error *e)
{
    int fd = -1;
    if (settings_lock_name(settings, &fd, e) != ERR_NONE) return e->code;
    enum err code = service_run(s, settings, path, true, NULL, NULL, e);
    close(fd);
    return code;
}

static enum err run(void *arg, const struct conf *conf, const char *path, struct error *e)
{
    (void)arg;
    struct settings settings;
    cores_off();
    if (settings_build(conf, &settings, e) != ERR_NONE) return e->code;
    if (geteuid() == 0)
        log_event(LOG_WARN, "runs_as_root", "next=%s",
                  LOGQ("let systemd (User=) or the container start it as a user of its own"));
    if (certificates_load(&settings, e) != ERR_NONE) return settings_close(&settings), e->code;
    struct service *s = heap_zalloc(sizeof *s);
    enum err code = run_named(s, &settings, path, e);
    settings_close(&settings);
    heap_free(s);
    if (code == ERR_NONE) log_event(LOG_INFO, "stopped", "outcome=clean");
    return code;
}

/* The pages of a long answer serve the next one: given back each time, they would cost a fault each, 13 ms for 5 MB on a slow machine. */
static void memory_keep(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_MOST);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_MOST);
}

int app_main(int argc, char **argv)
{
    if (!crash_init()) return 64;
    memory_keep();
    log_journal_detect();
    db_library_init();
    struct admin_ports ports = {.run = run, .recover_alone = recover_alone};
    return admin_main(argc, argv, &ports);
}
