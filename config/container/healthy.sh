#!/bin/bash
# config/container/healthy.sh [PORT] - exit status 0 when /healthz answers 200. In bash, so that the image needs no curl.
exec 3<>"/dev/tcp/127.0.0.1/${1:-7371}" || exit 1
printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
read -r -t 4 _ status _ <&3
[ "$status" = 200 ]
