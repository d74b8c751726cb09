/* app/app.h - the whole program: wiring only. What is decided is decided in the rooms below. */
#ifndef APP_APP_H
#define APP_APP_H

int app_main(int argc, char **argv); /* returns the exit status */

#endif
