# What bash would complete these words to, by the script of `apr completions bash`.
source <(apr completions bash)
COMP_WORDS=(apr "$@")
COMP_CWORD=$#
_apr apr "${!#}" "${COMP_WORDS[$# - 1]}"
echo "${COMPREPLY[@]}"
