# Files of safetensors with the tensors `fine`, `half` and `ruined`, [2, 2] each.
header() { # dtype, bytes of a tensor
    printf '{"fine":{"dtype":"%s","shape":[2,2],"data_offsets":[0,%d]},"half":{"dtype":"%s","shape":[2,2],"data_offsets":[%d,%d]},"ruined":{"dtype":"%s","shape":[2,2],"data_offsets":[%d,%d]}}' \
        "$1" "$2" "$1" "$2" $((2 * $2)) "$1" $((2 * $2)) $((3 * $2))
}
file() { # name, dtype, bytes of a tensor, payload
    text=$(header "$2" "$3")
    { printf "\\$(printf %03o ${#text})\\0\\0\\0\\0\\0\\0\\0%s" "$text"; printf "$4"; } > "$1"
}
one='\0\0\200\77' two='\0\0\0\100' near='\1\0\200\77' nan='\0\0\300\177' infinity='\0\0\200\177'
file a.safetensors F32 16 "$one$two$one$two$one$two$one$two$one$two$one$two"
file b.safetensors F32 16 "$near$two$one$two$nan$infinity$one$two$nan$nan$nan$nan"
near='\0\0\0\40\0\0\360\77' one='\0\0\0\0\0\0\360\77' two='\0\0\0\0\0\0\0\100' nan='\0\0\0\0\0\0\370\177' infinity='\0\0\0\0\0\0\360\177'
file b64.safetensors F64 32 "$near$two$one$two$nan$infinity$one$two$nan$nan$nan$nan"
