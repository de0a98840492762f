/* SPDX-License-Identifier: Apache-2.0 */
#include <meshflow/meshflow.h>
#include <stdio.h>

int main(void)
{
    printf("meshflow %s\n", mf_version());
    return 0;
}
