/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - a program outside the project, built against an installed Meshflow. */
#include <meshflow/status.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    puts(mf_status_name(MF_INVALID_ARGUMENT));
    return strcmp(mf_status_name(MF_INVALID_ARGUMENT), "INVALID_ARGUMENT") == 0 ? 0 : 1;
}
