printf "caf\351" > latin.txt
printf "caf\303\251" > text.txt
