# A file of safetensors with one matrix of BF16, [2, 32]: numbers from 1 on in steps of one in 128.
text='{"model.layers.0.mlp.up_proj.weight":{"dtype":"BF16","shape":[2,32],"data_offsets":[0,128]}}'
{
    printf "\\$(printf %03o ${#text})\\0\\0\\0\\0\\0\\0\\0%s" "$text"
    for n in $(seq 0 63); do
        printf "\\$(printf %03o $((128 + n)))\\077"
    done
} > a.safetensors
