/* main.c - hands over to app/, where everything is wired. */
#include "app/service.h"

int main(int argc, char **argv)
{
    return app_main(argc, argv);
}
