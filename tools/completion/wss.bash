# SPDX-License-Identifier: Apache-2.0
# Bash completion for all programs of WSS. The program itself lists the possible words. If it lists none,
# files are offered.
_wss_complete() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _wss_complete wss-target wss-cache wssctl kvctl wssbench
